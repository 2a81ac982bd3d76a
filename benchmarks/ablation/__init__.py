# SPDX-License-Identifier: Apache-2.0
"""What each part of HiPress gains: benchmarks/ablation.py."""
