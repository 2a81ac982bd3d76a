# SPDX-License-Identifier: Apache-2.0
"""The gradients of real models, one JSON file per model; generate.py writes them from this folder's architectures."""

from .gradient_set import HERE, MODELS, Gradient, GradientSet, load, one_tensor

__all__ = ["HERE", "MODELS", "Gradient", "GradientSet", "load", "one_tensor"]
