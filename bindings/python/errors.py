# SPDX-License-Identifier: Apache-2.0
"""The errors that HiPress raises, and its warning. Each text says what happened, where, and what to do. `HipressError`
is the base of all errors."""

from __future__ import annotations


class HipressError(RuntimeError):
    """Base of all errors of this package."""


class InvalidArgument(HipressError, ValueError):
    """The call itself is wrong: an unknown codec, a bad option, a non-contiguous or sparse tensor."""


class Unsupported(HipressError, TypeError):
    """The call is well formed, but HiPress cannot do it for this dtype, device or build."""


class DuplicateName(InvalidArgument):
    """Two tensors in flight at the same time have the same name."""


class NotInitialized(HipressError):
    """A function was called before `init()` or after `shutdown()`."""


class Mismatch(HipressError):
    """The ranks' tensor lists, shapes, dtypes, codecs or world sizes differ."""


class Timeout(HipressError, TimeoutError):
    """A deadline passed; the text names the rank and the tensor that did not arrive."""


class PeerLost(HipressError, ConnectionError):
    """A rank died or left, or its connection broke; the text names the rank."""


class CorruptPayload(HipressError):
    """A received payload fails validation; HiPress has applied none of its values."""


class TransportError(HipressError, OSError):
    """The network or UCX failed: a port in use, an unreachable address, a missing library."""


class Refused(HipressError, PermissionError):
    """The rendezvous turned this process away: a wrong job token, or a rank that is already taken."""


class CodecWarning(UserWarning):
    """A codec and an optimizer train badly together; the text says what to use instead."""


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
]
