# SPDX-License-Identifier: Apache-2.0
"""join(): ranks with fewer batches than others wait without holding them up."""

from __future__ import annotations

import tensorflow as tf

from hipress.adapter.lists import joining
from hipress.errors import Unsupported
from hipress.tensorflow.failures import with_own_errors


@with_own_errors
def join() -> tf.Tensor:
    """Says that this rank has no more batches, waits until all ranks have said it, and returns the rank that said it
    last, as an integer scalar. All ranks call it, as with Horovod.

    The other ranks go on meanwhile: this rank counts as zeros in their all-reduces, and averages are still over all
    ranks. What codecs keep on this rank for later steps stays as it is. Other collectives of the others raise
    Unsupported until all ranks have joined, and so do checks of replicas, automatic plans and codec="auto", which
    compare all ranks. Afterwards the variables of this rank are older than the others': give it those of the returned
    rank, with `broadcast_variables()`.

    Raises Unsupported in a graph, and for gradients on GPUs; PeerLost.
    """
    if not tf.executing_eagerly():
        raise Unsupported("join() is for eager code: call it after the steps, outside of tf.function")
    return tf.constant(joining.join(), tf.int32)
