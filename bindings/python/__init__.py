# SPDX-License-Identifier: Apache-2.0
"""HiPress: compression-aware gradient synchronisation for data-parallel training.

Scripts use it through a framework's adapter: `import hipress.torch as hp`. This module has the functions that all
adapters share.
"""

from __future__ import annotations

from hipress import codecs
from hipress.codecs import load_codec
from hipress.errors import (
    CodecWarning,
    CorruptPayload,
    DuplicateName,
    HipressError,
    InvalidArgument,
    Mismatch,
    NotInitialized,
    PeerLost,
    Refused,
    Timeout,
    TransportError,
    Unsupported,
)
from hipress.file_replacement import whole_file
from hipress.runtime import memory_stats


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'hipress' has no attribute '{name}'")
    # The version is read on demand: that takes longer than all other imports of `hipress run`.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hipress")
    except PackageNotFoundError:  # the package runs from sources and is not installed
        return "0+unknown"


__all__ = [
    "CodecWarning",
    "CorruptPayload",
    "DuplicateName",
    "HipressError",
    "InvalidArgument",
    "Mismatch",
    "NotInitialized",
    "PeerLost",
    "Refused",
    "Timeout",
    "TransportError",
    "Unsupported",
    "codecs",
    "load_codec",
    "memory_stats",
    "whole_file",
]
