# SPDX-License-Identifier: Apache-2.0
"""What codecs remember, in checkpoints: `codec_states()` and `load_codec_states()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from hipress.adapter import codec_states as adapter
from hipress.errors import InvalidArgument
from hipress.torch.diloco import DiLoCo
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.optim.synchronizing import SynchronizingOptimizer
from hipress.torch.synchronizer import GradientSynchronizer

#: What keeps states of codecs.
Keeper: TypeAlias = "DistributedTorchOptimizer | GradientSynchronizer | DiLoCo | SynchronizingOptimizer"


def codec_states(optimizer: Keeper, *, exact: bool = False) -> dict[str, torch.Tensor]:
    """What codecs remember of the gradients, as float32 tensors by name, beside small tensors that say of what.

    By default the mean over all ranks: **every rank calls it**, between the same steps, and all get the same. It serves
    any number of ranks, any codec and topology, so rank 0 saves it:

        states = hp.codec_states(optimizer)          # on every rank
        if hp.rank() == 0:
            torch.save({"optimizer": optimizer.state_dict(), "codecs": states}, path)

    With `exact=True` it is what this rank alone remembers. No other rank is asked, and every rank saves its own. With
    as many ranks, and the same codecs and plan, training goes on to the bit as if it had not ended.

    Arguments:
        optimizer: of DistributedOptimizer(); or a GradientSynchronizer or DiLoCo; or an optimizer of
            hipress.torch.optim over the engine.
        exact: see above.

    Raises InvalidArgument within a step; Mismatch if another rank has refused, or has done another number of steps;
    Timeout if a rank does not call it; NotInitialized.
    """
    collect = adapter.own_states if exact else adapter.mean_states
    states: dict[str, Any] = {}
    for tensors in _lists_of(optimizer, "codec_states"):
        states |= collect(tensors)
    return {key: torch.from_numpy(values) for key, values in states.items()}


def load_codec_states(optimizer: Keeper, states: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Goes on from what codec_states() returned, in place of what codecs remember now. **Every rank calls it**.

    With another codec, topology, plan or number of ranks the next averages still get every residual. A momentum
    goes on only where a rank encodes an element in the same role.

    Arguments:
        optimizer: as of codec_states(), with the same parameters.
        states: the mean; or, with exact=True, this rank's own, on as many ranks; or the list of all ranks' own, in
            their order, on any number of ranks. Tensors, or arrays of NumPy.

    Raises InvalidArgument within a step and, with the first difference, for states of other parameters or damaged ones;
    Mismatch on the other ranks then, and if ranks load states after different steps; Timeout if a rank does not call
    it. Nothing is changed then.
    """
    first, *others = _lists_of(optimizer, "load_codec_states")

    def is_of_first(key: str) -> bool:  # also what belongs to none: the list refuses it
        return not any(_is_of(key, each) for each in others)

    loaded = [(first, _parted(states, is_of_first))]
    loaded += [(each, _parted(states, partial(_is_shared_or_of, tensors=each))) for each in others]
    adapter.load_lists(loaded, as_array)


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
    """A tensor, on any device, as an array of NumPy."""
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
