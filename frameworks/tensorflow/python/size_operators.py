# SPDX-License-Identifier: Apache-2.0
"""rank() and size() as tensors, with Horovod's names, for graphs."""

from __future__ import annotations

import tensorflow as tf

from hipress import runtime
from hipress.adapter.process_sets import by_number


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """The number of ranks of the process set with this number, as an int32 scalar; 0 is the set of all ranks."""
    return tf.constant(by_number(process_set_id).size(), tf.int32, name=name)


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
    """1 if this rank is in the process set with this number, and else 0, as an int32 scalar."""
    return tf.constant(int(by_number(process_set_id).included()), tf.int32, name=name)
