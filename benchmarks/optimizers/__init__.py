# SPDX-License-Identifier: Apache-2.0
"""What a codec does to each optimizer: benchmarks/optimizers.py."""
