# SPDX-License-Identifier: Apache-2.0
"""rank() and size() as tensors, with Horovod's names, for graphs."""

from __future__ import annotations

import tensorflow as tf

from hipress import runtime
from hipress.adapter.process_sets import global_process_set


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """The world size, as an int32 scalar."""
    return tf.constant(runtime.size(), tf.int32, name=name)


def local_size_op(name: str | None = None) -> tf.Tensor:
    """Number of ranks on this host, as an int32 scalar."""
    return tf.constant(runtime.local_size(), tf.int32, name=name)


def rank_op(name: str | None = None) -> tf.Tensor:
    """This process' rank, as an int32 scalar."""
    return tf.constant(runtime.rank(), tf.int32, name=name)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """This process' rank on its host, as an int32 scalar."""
    return tf.constant(runtime.local_rank(), tf.int32, name=name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Always 1, because the only process set has all ranks, as an int32 scalar."""
    return tf.constant(int(global_process_set.included()), tf.int32, name=name)
