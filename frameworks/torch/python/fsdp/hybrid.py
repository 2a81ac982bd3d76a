# SPDX-License-Identifier: Apache-2.0
"""FSDP2's own average over replicas, of a mesh of two dimensions, over a group of the backend "hipress"."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.fsdp.units import Unit, of_same_shards, shards_of, units_of
from hipress.torch.process_groups.compressing_group import CompressingGroup
from hipress.torch.process_groups.named_gradients import naming


def compress_hybrid(model: torch.nn.Module) -> HybridState:
    """Hands the gradients that FSDP2 averages over replicas to their group, which compresses them.

    Returns the state for checkpoints.

    All ranks call it after `fully_shard` and before the first backward pass. The group's BackendOptions say how the
    gradients travel. It averages everything else exactly.

    Arguments:
        model: sharded by `fully_shard` over a mesh of two dimensions, of which the first one has the backend "hipress".

    Raises InvalidArgument; Mismatch, on all ranks of the group, if their shards differ.
    """
    units = units_of(model, "compress_hybrid")
    groups: dict[CompressingGroup, list[Unit]] = {}
    for unit in units:
        if unit.shapes:
            groups.setdefault(_group_of(unit), []).append(unit)
    for group, members in groups.items():
        group.declare({name: shape for unit in members for name, shape in unit.shapes.items()})
    for unit in units:
        if unit.shapes:
            unit.reduce_within(_naming(unit))
    return HybridState(groups)


def _group_of(unit: Unit) -> CompressingGroup:
    group = unit.replicate_group
    if group is None:
        raise InvalidArgument(
            f"{unit.name} is sharded over a mesh of one dimension, so FSDP2 does not average it over replicas: call "
            "compress_replicas() with the group of the replicas, or fully_shard() with a mesh of two dimensions"
        )
    if not isinstance(group, CompressingGroup):
        raise InvalidArgument(
            f"FSDP2 averages {unit.name} over replicas with the backend '{group.name()}': give the mesh's first "
            'dimension the backend \'hipress\', with init_device_mesh(…, backend_override={"rep": ("hipress", '
            'BackendOptions(codec=…))}), where "rep" is that dimension\'s name'
        )
    return group


def _naming(unit: Unit) -> Callable[[], contextlib.AbstractContextManager[None]]:
    return functools.partial(naming, unit.shapes, unit.replica_check(_group_of(unit)).after)


class HybridState:
    """The codec states of this rank's shards, such as residuals, which the groups of the replicas keep."""

    def __init__(self, groups: Mapping[CompressingGroup, Sequence[Unit]]) -> None:
        self._groups = list(groups)
        self._units = [unit for members in groups.values() for unit in members]

    def close(self) -> None:
        """Ends the groups' threads, and frees what codecs keep. All ranks call it, between two steps. From then on
        gradients are averaged exactly, also if this raises the error of the last step because no call has raised it."""
        for unit in self._units:
            unit.reduce_within(None)
        with contextlib.ExitStack() as closing:  # it closes all groups, also if one raises
            for group in reversed(self._groups):
                closing.callback(group.close)

    def state_dict(self) -> dict[str, Any]:
        """The codec states of this rank, and the number of steps of each gradient. Call it between two steps only."""
        return {"groups": [group.state_dict() for group in self._groups], "shards": shards_of(self._units)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state_dict() of the same rank, of as many ranks. All ranks call it. Raises
        InvalidArgument."""
        self._check(state)
        for group, saved in zip(self._groups, state["groups"], strict=True):
            group.load_state_dict(saved)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from the state_dict() of all ranks of an earlier job with another number of replicas, in rank order.

        Their residuals go into the next averages. All ranks call it. Raises InvalidArgument if none of the states is of
        this rank's shards.
        """
        own = of_same_shards(saved, self._units)
        for each in own:
            self._check(each)
        for number, group in enumerate(self._groups):
            group.load_states_of([each["groups"][number] for each in own])

    def _check(self, state: Mapping[str, Any]) -> None:
        if len(state["groups"]) != len(self._groups):
            raise InvalidArgument(
                f"the state is of a model with {len(state['groups'])} groups of replicas; this one has "
                f"{len(self._groups)}"
            )

    @property
    def sent_bytes(self) -> int:
        """Number of bytes of compressed gradients that this rank has sent to other ranks."""
        return sum(group.sent_bytes for group in self._groups)
