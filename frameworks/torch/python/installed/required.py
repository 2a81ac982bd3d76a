# SPDX-License-Identifier: Apache-2.0
"""Raises an error that says what to install if PyTorch is missing."""

from __future__ import annotations

import importlib

from hipress.errors import Unsupported


def import_torch() -> None:
    """Raises Unsupported unless PyTorch is installed."""
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise Unsupported("hipress.torch needs PyTorch, which is not installed: pip install 'torch>=2.9'") from error
