# SPDX-License-Identifier: Apache-2.0
"""Codec states (residuals and others) in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.tensorflow.failures import with_own_errors
from hipress.tensorflow.training.distributed_optimizer import DistributedTensorflowOptimizer
from hipress.tensorflow.training.loss_scaling import distributed_within
from hipress.tensorflow.training.synchronizer import GradientSynchronizer
from hipress.tensorflow.training.tape import DistributedTape


@with_own_errors
def codec_states(
    optimizer: Any, *, exact: bool = False, variables: Iterable[Any] | None = None
) -> dict[str, NDArray[Any]]:
    """The codec states of the gradients, as float32 arrays by name, with small arrays that describe them.

    By default it returns the mean over all ranks: **every rank calls it**, between the same steps and outside of
    tf.function, and all ranks get the same values. Any number of ranks can load the mean, with any codec and topology,
    so rank 0 saves it:

        states = hp.codec_states(optimizer)          # on every rank
        if hp.rank() == 0:
            model.save("model.keras")
            numpy.savez("codecs.npz", **states)

    With `exact=True` it returns the states of this rank alone. It asks no other rank, and every rank saves its own
    states. A job with the same number of ranks, the same codecs and the same plan then goes on with the same bits as if
    the first job had not ended.

    Arguments:
        optimizer: an optimizer of DistributedOptimizer(), or a tape of DistributedGradientTape().
        exact: True: this rank's states; False: the mean over all ranks.
        variables: `model.trainable_variables`. Give them if the optimizer is not built and has seen no gradients, or if
            it has seen gradients of several lists of variables. The states have the names of the variables' layers: if
            a process makes several models, name their layers yourself.

    Raises InvalidArgument within a step; Mismatch if another rank has refused, or has done another number of steps;
    Timeout if a rank does not call it; NotInitialized.
    """
    tensors = _list_of(optimizer, variables, "codec_states")
    return adapter.own_states(tensors) if exact else adapter.mean_states(tensors)


@with_own_errors
def load_codec_states(
    optimizer: Any,
    states: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    variables: Iterable[Any] | None = None,
) -> None:
    """Replaces the codec states by the result of codec_states(). **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    continues only where a rank encodes an element in the same role.

    Arguments:
        optimizer, variables: as for codec_states().
        states: the mean, for any number of ranks; or this rank's states (exact=True), for the same number of ranks; or
            the list of all ranks' states (exact=True), in rank order, for any number of ranks. An open file of
            numpy.load() is possible, too.

    Raises InvalidArgument within a step and, with the first difference, for damaged states or states of other
    variables; the other ranks then raise Mismatch. Raises Mismatch if ranks load states of different steps, and Timeout
    if a rank does not call it. After an error the states are unchanged.
    """
    adapter.load_states(_list_of(optimizer, variables, "load_codec_states"), states, np.asarray)


def _list_of(optimizer: Any, variables: Iterable[Any] | None, doing: str) -> GradientSynchronizer:
    optimizer = distributed_within(optimizer) or optimizer
    if not isinstance(optimizer, DistributedTensorflowOptimizer | DistributedTape):
        raise InvalidArgument(
            f"{doing}() takes an optimizer of DistributedOptimizer() or a tape of DistributedGradientTape(), not a "
            f"{type(optimizer).__name__}"
        )
    if variables is None and getattr(optimizer, "built", False):
        variables = getattr(optimizer, "_trainable_variables", None)
    shared = None if variables is None else optimizer._hipress_local.without(list(variables))
    return optimizer._hipress_lists.list_of(shared, doing)
