# SPDX-License-Identifier: Apache-2.0
"""What codecs remember, in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mxnet as mx

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.mxnet.synchronizer import GradientSynchronizer
from hipress.mxnet.trainer import DistributedTrainer


def codec_states(trainer: DistributedTrainer, *, exact: bool = False) -> dict[str, mx.nd.NDArray]:
    """What codecs remember of the gradients, as float32 arrays by name, beside small arrays that say of what.

    By default the mean over all ranks: **every rank calls it**, between the same steps, and all get the same. It serves
    any number of ranks, any codec and topology, so rank 0 saves it:

        states = hp.codec_states(trainer)          # on every rank
        if hp.rank() == 0:
            net.save_parameters("net.params")
            trainer.save_states("trainer.states")
            mx.nd.save("codecs.params", states)

    With `exact=True` it is what this rank alone remembers. No other rank is asked, and every rank saves its own. With
    as many ranks, and the same codecs and plan, training goes on to the bit as if it had not ended.

    Raises InvalidArgument if shapes of parameters are not known yet; Mismatch if another rank has refused, or has done
    another number of steps; Timeout if a rank does not call it; NotInitialized.
    """
    tensors = _list_of(trainer, "codec_states")
    states = adapter.own_states(tensors) if exact else adapter.mean_states(tensors)
    return {key: mx.nd.array(values, dtype=values.dtype) for key, values in states.items()}


def load_codec_states(trainer: DistributedTrainer, states: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Goes on from what codec_states() returned, in place of what codecs remember now. **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    goes on only where a rank encodes an element in the same role.

    Arguments:
        trainer: of a net with the same parameters, by their names.
        states: the mean, such as mx.nd.load() gives it; or, with exact=True, this rank's own, on as many ranks; or the
            list of all ranks' own, in their order, on any number of ranks.

    Raises InvalidArgument, with the first difference, for states of other parameters or damaged ones, and if shapes are
    not known yet; Mismatch on the other ranks then, and if ranks load states after different steps; Timeout if a rank
    does not call it. Nothing is changed then.
    """
    adapter.load_states(_list_of(trainer, "load_codec_states"), states, _as_array)


def _list_of(trainer: Any, doing: str) -> GradientSynchronizer:
    if not isinstance(trainer, DistributedTrainer):
        raise InvalidArgument(f"{doing}() takes a DistributedTrainer, not a {type(trainer).__name__}")
    return trainer.between_steps(doing)


def _as_array(value: Any) -> Any:
    return value.asnumpy() if isinstance(value, mx.nd.NDArray) else value
