# SPDX-License-Identifier: Apache-2.0
"""How far compressed averages of real gradients are from the exact ones: benchmarks/error.py."""
