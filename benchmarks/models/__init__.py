# SPDX-License-Identifier: Apache-2.0
"""The gradients of real models, a JSON file each; generate.py writes them from the architectures in this folder."""

from .gradient_set import HERE, MODELS, Gradient, GradientSet, load, one_tensor

__all__ = ["HERE", "MODELS", "Gradient", "GradientSet", "load", "one_tensor"]
