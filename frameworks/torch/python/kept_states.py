# SPDX-License-Identifier: Apache-2.0
"""Codec states (residuals and others) in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.torch.diloco import DiLoCo
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.optim.synchronizing import SynchronizingOptimizer
from hipress.torch.states.state_sum import check_sum, sum_of
from hipress.torch.synchronizer import GradientSynchronizer

#: The key of the states' checksum.
_SUM = "hipress:sum"
#: The objects that have codec states.
Keeper: TypeAlias = "DistributedTorchOptimizer | GradientSynchronizer | DiLoCo | SynchronizingOptimizer"


def codec_states(optimizer: Keeper, *, exact: bool = False) -> dict[str, torch.Tensor]:
    """The codec states of the gradients, as float32 tensors by name, with small tensors that describe them.

    By default it returns the mean over all ranks: **every rank calls it**, between the same steps, and all ranks get
    the same values. Any number of ranks can load the mean, with any codec and topology, so rank 0 saves it:

        states = hp.codec_states(optimizer)          # on every rank
        if hp.rank() == 0:
            torch.save({"optimizer": optimizer.state_dict(), "codecs": states}, path)

    With `exact=True` it returns the states of this rank alone. It asks no other rank, and every rank saves its own
    states. A job with the same number of ranks, the same codecs and the same plan then goes on with the same bits as if
    the first job had not ended.

    Arguments:
        optimizer: an optimizer of DistributedOptimizer(), a GradientSynchronizer, a DiLoCo, or an optimizer of
            hipress.torch.optim over the engine.
        exact: True: this rank's states; False: the mean over all ranks.

    Raises InvalidArgument within a step; Mismatch if another rank has refused, or has done another number of steps;
    Timeout if a rank does not call it; NotInitialized.
    """
    collect = adapter.own_states if exact else adapter.mean_states
    states: dict[str, Any] = {}
    for tensors in _lists_of(optimizer, "codec_states"):
        states |= collect(tensors)
    states[_SUM] = np.array([sum_of(states)], np.int64)
    return {key: torch.from_numpy(values) for key, values in states.items()}


def load_codec_states(optimizer: Keeper, states: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Replaces the codec states by the result of codec_states(). **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    continues only where a rank encodes an element in the same role.

    Arguments:
        optimizer: as for codec_states(), with the same parameters.
        states: the mean, for any number of ranks; or this rank's states (exact=True), for the same number of ranks; or
            the list of all ranks' states (exact=True), in rank order, for any number of ranks. The values are tensors
            or NumPy arrays.

    Raises InvalidArgument within a step and, with the first difference, for damaged states or states of other
    parameters; the other ranks then raise Mismatch. Raises Mismatch if ranks load states of different steps, and
    Timeout if a rank does not call it. After an error the states are unchanged.
    """
    first, *others = _lists_of(optimizer, "load_codec_states")

    def is_of_first(key: str) -> bool:  # also keys of no list: the first list refuses them
        return not any(_is_of(key, each) for each in others)

    given = _without_sum(states)
    loaded = [(first, _parted(given, is_of_first))]
    loaded += [(each, _parted(given, partial(_is_shared_or_of, tensors=each))) for each in others]
    adapter.load_lists(loaded, as_array, lambda: _check_sums(states))


def _check_sums(states: Any) -> None:
    for each in [states] if isinstance(states, Mapping) else states:
        check_sum(each, _SUM)


def _without_sum(states: Any) -> Any:
    return _parted(states, lambda key: key != _SUM)


def _parted(states: Any, belongs: Callable[[str], bool]) -> Any:
    if isinstance(states, Mapping):
        return {key: each for key, each in states.items() if belongs(str(key))}
    return [_parted(each, belongs) for each in states] if isinstance(states, list | tuple) else states


def _is_shared_or_of(key: str, tensors: GradientSynchronizer) -> bool:
    return key == "hipress" or _is_of(key, tensors)


def _is_of(key: str, tensors: GradientSynchronizer) -> bool:
    return any(key.startswith((f"{each.name}:", f"{each.name}/")) for each in tensors.as_saved())


def _lists_of(optimizer: Any, doing: str) -> list[GradientSynchronizer]:
    if isinstance(optimizer, DistributedTorchOptimizer):
        return [optimizer._hipress.between_steps(doing)]
    if isinstance(optimizer, GradientSynchronizer):
        return [optimizer]
    if isinstance(optimizer, DiLoCo):
        return [optimizer.synchronizer]
    if isinstance(optimizer, SynchronizingOptimizer):
        return optimizer.synchronizers
    raise InvalidArgument(
        f"{doing}() takes an optimizer of hipress.torch.DistributedOptimizer, not a {type(optimizer).__name__}; the "
        "hook of DistributedDataParallel has a state_dict() of its own"
    )


def as_array(value: Any) -> Any:
    """A tensor, on any device, as a NumPy array; other values unchanged."""
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
