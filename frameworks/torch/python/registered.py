# SPDX-License-Identifier: Apache-2.0
"""Makes the codecs' operators part of torch when `hipress.torch` is imported."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from torch.torch_version import TorchVersion


def register_codecs() -> None:
    """Loads torch.ops.hipress.<codec>_encode and so on, where HiPress was built with them and torch can take them.

    The operators need torch 2.10, the rest of hipress.torch 2.9: there, `import hipress.torch.codec_operators` says so.
    """
    built = Path(__file__).with_name("libhipress_torch_codecs.so").exists()
    if built and TorchVersion(torch.__version__) >= TorchVersion("2.10"):
        importlib.import_module("hipress.torch.codec_operators")
