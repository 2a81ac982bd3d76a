# SPDX-License-Identifier: Apache-2.0
"""Error classes that derive from both HiPress' and TensorFlow's errors, because Horovod scripts catch TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

from hipress import errors

#: The key of a status' payload that has the error's name (frameworks/tensorflow/operators/status.h).
_PAYLOAD = b"hipress/error"

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: Beginnings of those lines in a graph's error that describe where it was traced.
_STACK = ("  File", "Graph execution error", "Detected at node", "\t [[")
#: Number of characters of an error's text that the errors of other ranks repeat.
_LONGEST = 1000


def _both(own: type[errors.HipressError], *others: type[BaseException]) -> type[errors.HipressError]:
    """A class that derives from `own` and all of `others` and has the name of `own`. The first of `others` is
    TensorFlow's.
    """
    theirs = others[0]

    # AutoGraph and pickle recreate TensorFlow's errors, with arguments of these names.
    def __init__(self: Any, node_def: Any, op: Any, message: str, *payloads: Any) -> None:  # noqa: N807
        theirs.__init__(self, node_def, op, message, *payloads)
        self.args = (message,)

    members = {
        "__init__": __init__,
        "__module__": __name__,
        "__doc__": own.__doc__,
        "__str__": lambda self: self.message,
        "__reduce__": lambda self: (type(self), (None, None, self.message)),  # operators cannot be pickled
    }
    return type(own.__name__, (own, *others), members)


#: The same pairs as in statusCode() of operators/status.h.
InvalidArgument = _both(errors.InvalidArgument, tf.errors.InvalidArgumentError)
DuplicateName = _both(errors.DuplicateName, tf.errors.InvalidArgumentError)
Unsupported = _both(errors.Unsupported, tf.errors.UnimplementedError, NotImplementedError)
NotInitialized = _both(errors.NotInitialized, tf.errors.FailedPreconditionError)
Mismatch = _both(errors.Mismatch, tf.errors.FailedPreconditionError)
Timeout = _both(errors.Timeout, tf.errors.DeadlineExceededError)
PeerLost = _both(errors.PeerLost, tf.errors.UnavailableError)
CorruptPayload = _both(errors.CorruptPayload, tf.errors.DataLossError)
TransportError = _both(errors.TransportError, tf.errors.InternalError)
Refused = _both(errors.Refused, tf.errors.PermissionDeniedError)

_BOTH = {
    kind.__name__: kind
    for kind in (
        InvalidArgument,
        DuplicateName,
        Unsupported,
        NotInitialized,
        Mismatch,
        Timeout,
        PeerLost,
        CorruptPayload,
        TransportError,
        Refused,
    )
}


def own_error(error: BaseException) -> errors.HipressError | None:
    """The HiPress error behind the `error` of a tf.function, a Session or model.fit(); None if another operator failed.
    Its class is TensorFlow's, too: a Mismatch is a tf.errors.FailedPreconditionError.
    """
    cause: BaseException | None = error
    # A Session raises another error while it handles the error that has the payload.
    while isinstance(cause, tf.errors.OpError):
        if isinstance(cause, errors.HipressError):
            return cause
        name = cause.experimental_payloads.get(_PAYLOAD)
        if name is not None:
            # TensorFlow adds its name of the operator before or after the core's sentence.
            return _made(name.decode(), cause)
        cause = cause.__context__
    return None


def _made(name: str, error: tf.errors.OpError) -> errors.HipressError:
    kind = _BOTH.get(name)
    if kind is None:
        return errors.HipressError(error.message)
    return kind(error.node_def, error.op, error.message)


@contextmanager
def own_errors() -> Iterator[None]:
    """Within this context eager operators and HiPress' own checks raise errors that are TensorFlow's, too."""
    try:
        yield
    except errors.HipressError as error:
        kind = _BOTH.get(type(error).__name__)
        if kind is None or isinstance(error, tf.errors.OpError):
            raise
        raise kind(None, None, str(error)) from error.__cause__
    except tf.errors.OpError as error:
        own = own_error(error)
        if own is None:
            raise
        raise own from None


def with_own_errors(function: _Function) -> _Function:
    """Wraps `function` into own_errors()."""

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        with own_errors():
            return function(*arguments, **keywords)

    return call  # type: ignore[return-value]


def tell_what_is_raised(tell: Callable[[str], None]) -> None:
    """Calls `tell` with the text of every error that TensorFlow makes for an operator or a graph, such as
    "InvalidArgumentError: reason".

    If a script catches the error and goes on, the kernels of the next step can report this text.
    """
    own = tf.errors.OpError.__init__

    def told(self: tf.errors.OpError, node: Any, operator: Any, message: str, *arguments: Any) -> None:
        own(self, node, operator, message, *arguments)
        lines = [line for line in message.splitlines() if line.strip() and not line.startswith(_STACK)]
        tell(f"{type(self).__name__}: {' '.join(lines)[:_LONGEST]}")

    tf.errors.OpError.__init__ = told
