# SPDX-License-Identifier: Apache-2.0
"""Makes MXNet raise the errors of a synchronisation with HiPress' types.

If an operation of MXNet's engine fails, MXNet keeps the error with the operation's output arrays and with all arrays
computed from them. The next call that waits for one of these raises it: asnumpy(), wait_to_read(), waitall(). MXNet
finds the class of the error by the first word of its text; register() registers these words.
"""

from __future__ import annotations

from collections.abc import Callable

import mxnet as mx

from hipress import errors


def _raised_as(kind: type[errors.HipressError], word: str) -> Callable[[str], errors.HipressError]:
    return lambda text: kind(text.removeprefix(f"{word}: "))


def register() -> None:
    """Registers every error class of hipress.errors with MXNet."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        if issubclass(kind, errors.HipressError):
            word = f"hipress.{name}"  # as in frameworks/mxnet/operators/synchronize.cc
            mx.error.register(word, _raised_as(kind, word))
