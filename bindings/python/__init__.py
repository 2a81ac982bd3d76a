# SPDX-License-Identifier: Apache-2.0
"""HiPress: compression-aware gradient synchronisation for data-parallel training.

Use it through a framework's adapter: `import hipress.torch as hp`. What is here is common to all of them.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

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

try:
    __version__ = version("hipress")
except PackageNotFoundError:  # running from sources that were never installed
    __version__ = "0+unknown"

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
    "__version__",
]
