# SPDX-License-Identifier: Apache-2.0
"""Measures training steps and accuracy: benchmarks/train.py and accuracy.py."""
