# SPDX-License-Identifier: Apache-2.0
"""Ranks whose processes have imported TensorFlow."""

from __future__ import annotations

from typing import Any

from tests.ranks import Ranks

#: Python code that a rank's process runs first.
PREPARATION = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(2)
import hipress.tensorflow
"""
_ranks = Ranks(PREPARATION)


def begin(function: Any, *arguments: Any) -> Any:
    """Resets Keras's layer numbers and calls the function. Keras numbers the layers of a process, and ranks compare
    names, so the layers of earlier tests on fewer ranks must not count.
    """
    import keras

    keras.utils.clear_session()
    return function(*arguments)


def outcomes(function: Any, world_size: int, *arguments: Any, **variables: str) -> list[Any]:
    """Like Ranks.outcomes()."""
    return _ranks.outcomes(begin, world_size, function, *arguments, **variables)


def run(function: Any, world_size: int, *arguments: Any, **variables: str) -> list[Any]:
    """Like Ranks.run()."""
    return _ranks.run(begin, world_size, function, *arguments, **variables)
