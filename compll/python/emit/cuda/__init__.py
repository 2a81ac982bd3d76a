# SPDX-License-Identifier: Apache-2.0
"""CUDA sources for GPUs."""
