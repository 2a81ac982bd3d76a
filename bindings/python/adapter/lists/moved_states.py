# SPDX-License-Identifier: Apache-2.0
"""Codec states in a job whose ranks have changed: each rank takes what it had not sent into the new world.

The residual that a rank has as an aggregator becomes a part of its own one: another rank may aggregate now. With
averages residuals are multiplied by the new number of ranks divided by the old one, so the next averages get what the
last ones lacked, except what lost ranks had. New ranks have no residuals. All take the numbers of steps, which seed
random values, and the factors of PowerSGD from rank 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.codec_states import (
    ABOUT,
    FORMAT,
    RESIDUAL,
    load_own_states,
    load_states,
    of_gradients,
    own_states,
    state_names,
)
from hipress.adapter.objects import broadcast_object
from hipress.adapter.state_blocks import block_of, set_block
from hipress.adapter.synchronizer import TensorList

States = Mapping[str, NDArray[Any]]


class CommittedStates:
    """What the codecs of a list keep on this rank, as an elastic state has it.

    An empty list keeps nothing: it waits for the first world, see restarting.py.
    """

    def __init__(self, tensors: TensorList) -> None:
        self._tensors = tensors
        self._states: dict[str, NDArray[Any]] = {}  # empty: the list was in no world yet
        self._engine: Any = None  # which had these states

    def save(self) -> None:
        """Copies the states."""
        if len(self._tensors):
            self._states, self._engine = own_states(self._tensors), self._tensors.engine

    def restore(self) -> None:
        """Goes back to the copy. After a loss it does nothing: sync() gives the next world the copy."""
        if self._states and not runtime.has_failed() and self._is_current():
            load_own_states(self._tensors, self._states)

    def drop(self, names: Collection[str]) -> None:
        """Removes the codecs' states of these tensors from the copy."""
        for name in names:
            for key in [key for key in self._states if key.startswith((f"{name}/", f"{name}:unsent"))]:
                del self._states[key]

    def sync(self) -> None:
        """Moves the states into the world of the current engine. All ranks call it between the same steps."""
        if len(self._tensors) == 0:
            return
        if not self._states or self._is_current():
            self.save()
        move_states(self._tensors, self._states)

    def residual(self) -> float:
        """The squared norm of the residuals in the copy."""
        return squared_norm(self._states)

    def _is_current(self) -> bool:
        return self._engine is self._tensors.engine


def move_states(tensors: TensorList, own: States) -> None:
    """Gives the list the states that this rank had in an earlier world. All ranks call it between the same steps.

    `own`: the result of own_states() there, or in this world. Raises the errors of load_states().
    """
    of_root = broadcast_object(_described(tensors, own), 0, name=f"states of {tensors.name(0)}")
    load_states(tensors, _moved(tensors, own, of_root))


def squared_norm(own: States) -> float:
    """The squared norm of a rank's residuals, in the unit of gradients."""
    names = state_names(own)
    each = (of_gradients(own, name, names).get(RESIDUAL) for name in _tensor_names(own))
    return sum(float(np.dot(values, values)) for values in each if values is not None)


def _described(tensors: TensorList, own: States) -> dict[str, NDArray[Any]]:
    """What all ranks take from rank 0."""
    shared = {key: values for key, values in own.items() if key.endswith((":shape", ":steps"))}
    names = state_names(own)
    for index, tensor in enumerate(tensors.as_saved()):
        if _has_factors(tensors, index):
            kept = (f"{tensor.name}/{state}" for state in names.get(tensor.name, ()) if state != RESIDUAL)
            shared |= {key: own[key] for key in kept}
    return {ABOUT: own[ABOUT], **shared}


def _has_factors(tensors: TensorList, index: int) -> bool:
    return load_core().create_codec(tensors.codec_of(index)).low_rank is not None


def _moved(tensors: TensorList, own: States, of_root: States) -> dict[str, NDArray[Any]]:
    """The states in the form of a mean over ranks, which each rank takes as its own."""
    world = tensors.process_set.size()
    states = {key: values for key, values in of_root.items() if key != ABOUT}
    states[ABOUT] = np.array([FORMAT, world, -1, of_root[ABOUT][3]], np.int64)
    growth = world / int(own[ABOUT][1]) if tensors.options.op.name == "average" else 1.0
    names = state_names(own)
    for tensor in tensors.as_saved():
        for state, values in of_gradients(own, tensor.name, names).items():
            key = f"{tensor.name}/{state}"
            if key in of_root:
                continue
            states[key] = (values * np.float32(growth)).astype(np.float32) if state == RESIDUAL else values
            if key in own:
                set_block(states, key, block_of(own, key))
    return states


def _tensor_names(own: States) -> list[str]:
    return [key.removesuffix(":shape") for key in own if key.endswith(":shape")]
