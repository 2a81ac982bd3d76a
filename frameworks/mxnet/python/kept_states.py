# SPDX-License-Identifier: Apache-2.0
"""Codec states (residuals and others) in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.mxnet.synchronizer import GradientSynchronizer
from hipress.mxnet.trainer import DistributedTrainer


def codec_states(trainer: DistributedTrainer, *, exact: bool = False) -> dict[str, mx.nd.NDArray]:
    """The codec states of the gradients, as float32 arrays by name, with small arrays that describe them.

    By default it returns the mean over all ranks: **every rank calls it**, between the same steps, and all ranks get
    the same values. Any number of ranks can load the mean, with any codec and topology, so rank 0 saves it:

        states = hp.codec_states(trainer)          # on every rank
        if hp.rank() == 0:
            net.save_parameters("net.params")
            trainer.save_states("trainer.states")
            mx.nd.save("codecs.params", states)

    With `exact=True` it returns the states of this rank alone. It asks no other rank, and every rank saves its own
    states. A job with the same number of ranks, the same codecs and the same plan then goes on with the same bits as if
    the first job had not ended.

    Raises InvalidArgument if shapes of parameters are not known yet; Mismatch if another rank has refused, or has done
    another number of steps; Timeout if a rank does not call it; NotInitialized.
    """
    tensors = _list_of(trainer, "codec_states")
    states = adapter.own_states(tensors) if exact else adapter.mean_states(tensors)
    return {key: mx.nd.array(values, dtype=values.dtype) for key, values in states.items()}


def load_codec_states(trainer: DistributedTrainer, states: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Replaces the codec states by the result of codec_states(). **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    continues only where a rank encodes an element in the same role.

    Arguments:
        trainer: a trainer of a net with the same parameter names.
        states: the mean, as mx.nd.load() returns it, for any number of ranks; or this rank's states (exact=True), for
            the same number of ranks; or the list of all ranks' states (exact=True), in rank order, for any number of
            ranks.

    Raises InvalidArgument, with the first difference, for damaged states or states of other parameters, and if shapes
    of parameters are not known yet; the other ranks then raise Mismatch. Raises Mismatch if ranks load states of
    different steps, and Timeout if a rank does not call it. After an error the states are unchanged.
    """
    adapter.load_states(_list_of(trainer, "load_codec_states"), states, _as_array)


def _list_of(trainer: Any, doing: str) -> GradientSynchronizer:
    if not isinstance(trainer, DistributedTrainer):
        raise InvalidArgument(f"{doing}() takes a DistributedTrainer, not a {type(trainer).__name__}")
    return trainer.between_steps(doing)


def _as_array(value: Any) -> Any:
    return value.asnumpy() if isinstance(value, mx.nd.NDArray) else value
