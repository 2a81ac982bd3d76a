# SPDX-License-Identifier: Apache-2.0
"""What tf.function does with HiPress' functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from hipress.tensorflow.failures import with_own_errors

_Function = TypeVar("_Function", bound=Callable[..., object])


def as_written(function: _Function) -> _Function:
    """Called while a tf.function is traced, `function` is ordinary Python, which AutoGraph leaves as it is. It runs
    within own_errors().
    """
    plain: _Function = tf.autograph.experimental.do_not_convert(with_own_errors(function))
    return plain
