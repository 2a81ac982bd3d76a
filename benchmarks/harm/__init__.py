# SPDX-License-Identifier: Apache-2.0
"""Whether hipress.torch.watch() tells trainings that compression harms from others: benchmarks/harm."""
