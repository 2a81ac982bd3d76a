# SPDX-License-Identifier: Apache-2.0
"""Measures the effect of codecs on each optimizer: benchmarks/optimizers.py."""
