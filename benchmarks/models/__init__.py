# SPDX-License-Identifier: Apache-2.0
"""The gradients of real models: one JSON file each, written by generate.py from the architectures beside it."""

from .gradient_set import HERE, MODELS, Gradient, GradientSet, load, one_tensor

__all__ = ["HERE", "MODELS", "Gradient", "GradientSet", "load", "one_tensor"]
