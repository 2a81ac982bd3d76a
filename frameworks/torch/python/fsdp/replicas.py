# SPDX-License-Identifier: Apache-2.0
"""The average of gradient shards over hosts, in the all-reduce hook of FSDP2, which reduces within a host."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, NotInitialized
from hipress.options.declaration import filled
from hipress.options.group_travel import BesideCodec, GroupTravel
from hipress.options.signatures import takes
from hipress.options.warmup import warmup_of
from hipress.secopa.online.ways import AutomaticWays
from hipress.torch.automatic.group_training import automatic_ways
from hipress.torch.automatic.options_to_try import codecs_to_choose, options_to_try
from hipress.torch.fsdp.units import Unit, of_same_shards, shards_of, units_of
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.options import GroupOptions, chosen_codec
from hipress.torch.process_groups.sides import side_for
from hipress.torch.process_groups.states.open_step import backward_pass
from hipress.torch.reals import as_reals
from hipress.torch.replicas import ReplicaCheck
from hipress.torch.scaling.loss_scale import LossScale
from hipress.torch.states.place import PLACE, check_place, place_in
from hipress.torch.states.state_sum import check_sum, with_sum

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The words that fill the placeholders of the options' texts for this function.
_WORDS = {
    "gradient": "shard",
    "codec_for_example": '{"embedding.weight": "fp16"}',
    "more_topologies": "",
    "group_only": "",
    "group_only_seed": "",
}


@takes(GroupTravel, **_WORDS)
def compress_replicas(
    model: torch.nn.Module, replicate_group: dist.ProcessGroup, codec: str | None = None, **options: Unpack[BesideCodec]
) -> ReplicaState:
    """Averages the model's gradient shards over `replicate_group`, compressed; returns the state for checkpoints.

    All ranks call it after `fully_shard` and before the first backward pass, with the same arguments.

    Arguments:
        model: sharded by `fully_shard` over a mesh of one dimension, the ranks of a host. FSDP2 must not replicate
            itself: its own all-reduce of a mesh of two dimensions cannot be replaced.
        replicate_group: this rank and the ranks of the other hosts that have the same shards. It takes tensors
            on the model's device (Gloo, NCCL).
        {codec, topology, min_compress_bytes, compress_vectors, codec_for, warmup, seed, scaler, optimizer, accuracy}

    Raises InvalidArgument, Unsupported; Mismatch, on all ranks of the group, if their shards or arguments differ.
    """
    units = units_of(model, "compress_replicas")
    may_choose = codecs_to_choose(codec, options, "warmup")
    call = "compress_replicas(model, replicate_group, codec)"
    text = "none" if may_choose else chosen_codec(codec, call, options.get("codec_for"))
    given = filled(GroupTravel, {**options, "codec": text})
    del given["optimizer"], given["accuracy"]
    given["scaler"] = LossScale(given["scaler"], "compress_replicas(model, replicate_group, codec, scaler=scaler)")
    how = GroupOptions(**{**given, "codec_for": dict(given["codec_for"] or {}), "warmup": warmup_of(given["warmup"])})
    if how.is_hierarchical:
        raise InvalidArgument(
            "compress_replicas() averages over hosts, with one rank of each: choose 'auto', 'ps', 'ring', "
            "'butterfly' or 'allgather'"
        )
    shapes: dict[str, TensorShape] = {}
    for unit in units:
        if unit.is_hybrid:
            raise InvalidArgument(
                f"{unit.name} is sharded over a mesh of two dimensions, and FSDP2 averages over its first one by "
                "itself: give fully_shard() the mesh of one host, mesh['shard'], and compress_replicas() the group of "
                "the other dimension, mesh['replicate'].get_group(); or give that dimension the backend 'hipress'"
            )
        shapes.update(unit.shapes)
    side = side_for({unit.name: unit.device for unit in units})
    average = GroupAverage(shapes, replicate_group, how, side=side)
    automatic = None
    if may_choose and replicate_group.size() > 1:
        tried = options_to_try(how, may_choose, shapes, replicate_group, side.device, topologies=True)
        beside = next((unit.shard_group for unit in units), None)
        automatic = automatic_ways(replicate_group, shapes, side.device, tried, average.change, beside)
    choosing = _Choosing(automatic)
    for unit in units:
        if unit.shapes:
            unit.module.set_all_reduce_hook(_hook(unit, average, unit.replica_check(replicate_group), choosing))
    return ReplicaState(average, replicate_group, units, automatic)


class _Choosing:
    """Tells the race of codec "auto" that a step has begun: its first unit has gradients."""

    def __init__(self, automatic: AutomaticWays | None) -> None:
        self._automatic = automatic
        self._pass: Hashable = None

    def follow(self, backward: Hashable) -> None:
        if self._automatic is not None and backward != self._pass:
            self._pass = backward
            self._automatic.step_begins()


def _hook(
    unit: Unit, average: GroupAverage, check: ReplicaCheck, choosing: _Choosing
) -> Callable[[torch.Tensor], None]:
    """The function for FSDPModule.set_all_reduce_hook()."""

    def averaged(shards: torch.Tensor) -> None:
        reals = as_reals(shards)
        unit.check_elements(reals)
        check.after(unit.steps)
        pieces = reals.split([shape.count for shape in unit.shapes.values()])
        backward = backward_pass()
        choosing.follow(backward)
        # The units of a backward pass are one step, also if some of them have had fewer passes.
        started = average.start(list(zip(unit.shapes, pieces, strict=True)), unit.steps, key=backward)
        unit.steps += 1
        started.wait()

    return averaged


def _exact_hook(group: dist.ProcessGroup) -> Callable[[torch.Tensor], None]:
    def averaged(shards: torch.Tensor) -> None:
        shards.mul_(1.0 / group.size())
        dist.all_reduce(shards, group=group)

    return averaged


class ReplicaState:
    """The codec states of this rank's shards, such as residuals."""

    def __init__(
        self,
        average: GroupAverage,
        group: dist.ProcessGroup,
        units: Sequence[Unit],
        automatic: AutomaticWays | None = None,
    ) -> None:
        self._average: GroupAverage | None = average
        self._group = group
        self._units = units
        self._automatic = automatic

    @property
    def chosen(self) -> str:
        """What codec "auto" has chosen, such as "int8 over ps"; empty while it measures, and without it."""
        way = None if self._automatic is None else self._automatic.chosen
        return "" if way is None else str(way)

    def close(self) -> None:
        """Ends the threads, and frees the groups and what codecs keep. All ranks call it, between two steps.

        From then on shards are averaged exactly, also if this raises the error of the last step because no call has
        raised it.
        """
        average, self._average = self._average, None
        if average is not None:
            for unit in self._units:
                if unit.shapes:
                    unit.module.set_all_reduce_hook(_exact_hook(self._group))
            average.close()

    def state_dict(self) -> dict[str, Any]:
        """The codec states of this rank, and the number of steps of each unit. Call it between two steps only."""
        steps, states = [unit.steps for unit in self._units], self._running().state_dict()
        state = {"steps": steps, PLACE: place_in(self._group), "shards": shards_of(self._units), "states": states}
        return with_sum(state if self._automatic is None else {**state, "auto": self._automatic.state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state_dict() of the same rank. Raises InvalidArgument if the state is of another model."""
        if len(state["steps"]) != len(self._units):
            raise InvalidArgument(
                f"the state is of a model with {len(state['steps'])} sharded modules; this one has {len(self._units)}"
            )
        check_sum(state)
        check_place(state, place_in(self._group))
        average = self._running()
        self._begin_with_choice_of(state)
        average.load_state_dict(state["states"])
        for unit, steps in zip(self._units, state["steps"], strict=True):
            unit.steps = int(steps)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from the state_dict() of all ranks of an earlier job with another number of hosts, in rank order.

        Their residuals go into the next averages. Raises InvalidArgument if none of the states is of this rank's
        shards.
        """
        for each in saved:
            check_sum(each)
        own = of_same_shards(saved, self._units)
        average = self._running()
        self._begin_with_choice_of(own[0])
        average.load_states_of([each["states"] for each in own])
        for unit, steps in zip(self._units, own[0]["steps"], strict=True):
            unit.steps = int(steps)

    def _begin_with_choice_of(self, state: Mapping[str, Any]) -> None:
        if self._automatic is not None:
            self._automatic.load_state_dict(state.get("auto", {}))

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has sent to other ranks."""
        return self._running().sent_bytes

    def _running(self) -> GroupAverage:
        if self._average is None:
            raise NotInitialized("this state of compress_replicas() was closed: call state_dict() before close()")
        return self._average
