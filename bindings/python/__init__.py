# SPDX-License-Identifier: Apache-2.0
"""HiPress: compression-aware gradient synchronisation for data-parallel training.

Use it through a framework's adapter: `import hipress.torch as hp`. What is here is common to all of them.
"""

from __future__ import annotations

from hipress.codecs import load_codec
from hipress.errors import (
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
from hipress.runtime import memory_stats


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module 'hipress' has no attribute '{name}'")
    # Looked up on demand: it takes longer than everything else `hipress run` imports.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hipress")
    except PackageNotFoundError:  # running from sources that were never installed
        return "0+unknown"


__all__ = [
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
    "load_codec",
    "memory_stats",
]
