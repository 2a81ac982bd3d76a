# SPDX-License-Identifier: Apache-2.0
"""Layers whose forward pass is among all ranks."""
