# SPDX-License-Identifier: Apache-2.0
"""Keeps AutoGraph from converting HiPress' functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from hipress.tensorflow.failures import with_own_errors

_Function = TypeVar("_Function", bound=Callable[..., object])


def as_written(function: _Function) -> _Function:
    """Wraps `function` so that AutoGraph does not convert it in a tf.function. It runs within own_errors()."""
    plain: _Function = tf.autograph.experimental.do_not_convert(with_own_errors(function))
    return plain
