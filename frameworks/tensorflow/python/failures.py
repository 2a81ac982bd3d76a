# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's errors become HiPress' own where HiPress made them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from hipress import errors

#: Where a status carries the error's name (frameworks/tensorflow/operators/status.h).
_PAYLOAD = b"hipress/error"


def own_error(error: tf.errors.OpError) -> errors.HipressError | None:
    """The HiPress error that ended a tf.function or model.fit() with `error`; None if another operator failed."""
    name = error.experimental_payloads.get(_PAYLOAD)
    if name is None:
        return None
    # TensorFlow adds what it calls the operator; the sentence of the core comes first or last.
    kind: type[errors.HipressError] = getattr(errors, name.decode(), errors.HipressError)
    return kind(error.message)


@contextmanager
def own_errors() -> Iterator[None]:
    """Within it operators that run at once raise HiPress' errors."""
    try:
        yield
    except tf.errors.OpError as error:
        own = own_error(error)
        if own is None:
            raise
        raise own from None
