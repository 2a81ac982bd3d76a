# SPDX-License-Identifier: Apache-2.0
"""Measures the distance of compressed averages of real gradients from the exact averages: benchmarks/error.py."""
