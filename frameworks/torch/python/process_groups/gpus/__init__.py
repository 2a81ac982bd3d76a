# SPDX-License-Identifier: Apache-2.0
"""Averages over process groups of GPU tensors."""
