# SPDX-License-Identifier: Apache-2.0
"""Measures the time of averaging gradients: benchmarks/sync.py."""
