# SPDX-License-Identifier: Apache-2.0
"""Tensors cut into tiles of at most 64 × 64 elements, and messages with some values of each tile."""
