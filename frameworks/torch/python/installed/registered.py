# SPDX-License-Identifier: Apache-2.0
"""Registers the codecs' operators with torch when a program imports `hipress.torch`."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from torch.torch_version import TorchVersion


def register_codecs() -> None:
    """Loads the operators torch.ops.hipress.<codec>_encode and others, if this build of HiPress has them and torch can
    load them.

    The operators need torch 2.10; the rest of hipress.torch needs 2.9. With torch 2.9, `import
    hipress.torch.codec_operators` raises Unsupported.
    """
    built = Path(__file__).parents[1].joinpath("libhipress_torch_codecs.so").exists()
    if built and TorchVersion(torch.__version__) >= TorchVersion("2.10"):
        importlib.import_module("hipress.torch.codec_operators")
