# SPDX-License-Identifier: Apache-2.0
"""Makes MXNet raise the errors of a synchronisation with their types, wherever it raises them.

An operation of MXNet's engine that fails leaves its error with the arrays it was to write and with everything computed
from them; the next call that waits for one of these raises it: asnumpy(), wait_to_read(), waitall(). MXNet knows the
type by the text's first word, for which a class can be registered.
"""

from __future__ import annotations

from collections.abc import Callable

import mxnet as mx

from hipress import errors


def _raised_as(kind: type[errors.HipressError], word: str) -> Callable[[str], errors.HipressError]:
    return lambda text: kind(text.removeprefix(f"{word}: "))


def register() -> None:
    """For every error of hipress.errors."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        if issubclass(kind, errors.HipressError):
            word = f"hipress.{name}"  # as in frameworks/mxnet/operators/synchronize.cc
            mx.error.register(word, _raised_as(kind, word))
