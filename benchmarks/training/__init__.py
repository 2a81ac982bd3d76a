# SPDX-License-Identifier: Apache-2.0
"""Training steps and accuracy: benchmarks/train.py and accuracy.py."""
