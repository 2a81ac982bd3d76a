# SPDX-License-Identifier: Apache-2.0
"""How long gradients take to be averaged: benchmarks/sync.py."""
