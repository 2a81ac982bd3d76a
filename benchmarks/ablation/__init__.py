# SPDX-License-Identifier: Apache-2.0
"""Measures the gain of each part of HiPress: benchmarks/ablation.py."""
