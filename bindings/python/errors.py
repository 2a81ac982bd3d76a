# SPDX-License-Identifier: Apache-2.0
"""The errors HiPress raises, and its warnings. Each says what happened, where, and what to do; catch `HipressError` for
any of the errors."""

from __future__ import annotations


class HipressError(RuntimeError):
    """Base of all errors of this package."""


class InvalidArgument(HipressError, ValueError):
    """The call itself is wrong: an unknown codec, a bad option, a non-contiguous or sparse tensor."""


class Unsupported(HipressError, TypeError):
    """The call is well formed, but this dtype, device or build cannot do it."""


class DuplicateName(InvalidArgument):
    """Two tensors that are in flight at the same time carry one name."""


class NotInitialized(HipressError):
    """Used before `init()` or after `shutdown()`."""


class Mismatch(HipressError):
    """The ranks disagree: different tensor lists, shapes, dtypes, codecs or world sizes."""


class Timeout(HipressError, TimeoutError):
    """A deadline passed; the message names the rank and the tensor waited for."""


class PeerLost(HipressError, ConnectionError):
    """A rank died, left, or its connection broke; the message names it."""


class CorruptPayload(HipressError):
    """A received payload fails validation; nothing of it was applied."""


class TransportError(HipressError, OSError):
    """The network or UCX refused: a port in use, an unreachable address, a missing library."""


class Refused(HipressError, PermissionError):
    """The rendezvous turned this process away: a wrong job token, or a rank that is already taken."""


class CodecWarning(UserWarning):
    """A codec and an optimizer that train badly together; the message says what to use instead."""


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
