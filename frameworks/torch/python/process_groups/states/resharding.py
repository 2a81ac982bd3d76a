# SPDX-License-Identifier: Apache-2.0
"""States of another number of ranks, for the ranks that go on: what residuals held back is not lost.

A worker's residual joins the next gradient or partial sum of its rank, which the average divides by the world size; an
aggregator's joins the average itself. So a new worker takes M/N of the residuals of the old workers that it follows,
and a new aggregator takes the residuals of its elements from the old aggregators. The next average on M ranks then gets
the same sum as on N ranks before. Other states (a momentum) are averaged over the ranks that have them.

Who encodes a partition depends on the topology: with "hierarchical" one rank of each host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.layout import Compressed, Layout, Partition
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.states.residuals import RESIDUAL, Floats, block_of, key_text, length_of
from hipress.torch.process_groups.states.unsent import OF_AVERAGE, OF_GRADIENT

if TYPE_CHECKING:
    from hipress._core import Codec

#: No state of a codec: see _assembled().
_COVERED = "\ncovered"

#: As Residuals.state_dict() writes it.
SavedStates = Mapping[str, Mapping[str, Any]]


def states_for(
    tensors: Sequence[Compressed], saved: Sequence[SavedStates], ranks: Ranks
) -> dict[str, dict[str, Floats]]:
    """The states of a rank, from those of all ranks of an earlier job, in order. `tensors`: all compressed ones."""
    result: dict[str, dict[str, Floats]] = {}
    layout = Layout(tensors, ranks)
    for number, tensor in enumerate(tensors):
        workers = [_assembled(tensor, states, "worker") for states in saved]
        aggregators = _sum(_assembled(tensor, states, "aggregator") for states in saved)
        for partition in layout.partitions:
            if partition.tensor == number:
                _add(result, tensor, partition, workers, aggregators, ranks.by(tensor.topology))
    return result


def carried_states(tensors: Sequence[Compressed], saved: SavedStates, ranks: Ranks) -> dict[str, dict[str, Floats]]:
    """The states of a rank in a new group, from its own ones of an earlier group. Both groups give sums, not averages.

    A part of a sum has one unit for all ranks and roles: the rank's residuals of a tensor, from whatever role, go to
    the partitions that it encodes now, and the others join its next gradient. Other states stay in their role.

    Arguments:
        tensors: all compressed ones.
        ranks: of the new group.
    """
    names = {tensor.name for tensor in tensors}
    result: dict[str, dict[str, Floats]] = {}
    for key, states in saved.items():
        name, role, *_ = key.split("\n")
        if name not in names or role not in ("worker", "aggregator"):
            result[key] = {each: np.array(values, np.float32) for each, values in states.items()}
    layout = Layout(tensors, ranks)
    for number, tensor in enumerate(tensors):
        found = {role: _assembled(tensor, saved, role) for role in ("worker", "aggregator")}
        residual = _sum({RESIDUAL: each[RESIDUAL]} for each in found.values() if RESIDUAL in each).get(RESIDUAL)
        for partition in layout.partitions:
            role, codec = _role_in(partition, tensor, ranks)
            if partition.tensor != number or not role:
                continue
            part = slice(partition.first, partition.first + partition.count)
            own = {name: values[part] for name, values in found[role].items() if name in codec.states}
            if RESIDUAL in codec.states and residual is not None:
                own[RESIDUAL] = np.zeros(partition.count, np.float32)
                if not partition.raw:  # raw values send no residual
                    own[RESIDUAL] += residual[part]
                    residual[part] = 0
            if own:
                key = key_text(tensor.name, role, tensor.first + partition.first, partition.count)
                result[key] = {name: values[:: block_of(codec, name)] for name, values in own.items()}
        if residual is not None and residual.any():
            key = key_text(tensor.name, OF_GRADIENT, tensor.first, tensor.count)
            before = result.setdefault(key, {RESIDUAL: np.zeros(tensor.count, np.float32)})
            before[RESIDUAL] = before[RESIDUAL] + residual
    return result


def own_keys(tensors: Sequence[Compressed], ranks: Ranks) -> dict[str, set[str]]:
    """Of each tensor, which travels compressed, the keys of what this rank remembers."""
    keys: dict[str, set[str]] = {tensor.name: set() for tensor in tensors}
    for partition in Layout(tensors, ranks).partitions:
        tensor = tensors[partition.tensor]
        workers, aggregator = ranks.by(tensor.topology).encoders(partition.owner)
        if ranks.rank == aggregator or ranks.rank in workers:
            role = "aggregator" if ranks.rank == aggregator else "worker"
            keys[tensor.name].add(key_text(tensor.name, role, tensor.first + partition.first, partition.count))
    return keys


def unsent_for(
    saved: Sequence[SavedStates], rank: int, world: int, *, encoded: Collection[str]
) -> dict[str, dict[str, Floats]]:
    """What rank `rank` of `world` ranks sends without a codec of the residuals of all old ranks in order (unsent.py):
    those of tensors that do not travel encoded by partition, and values that an old rank could not send.

    Arguments:
        encoded: the names of those for which states_for() has the states.
    """
    result: dict[str, dict[str, Floats]] = {}

    def add(key: str, values: Floats) -> None:
        before = result.setdefault(key, {RESIDUAL: np.zeros(len(values), np.float32)})
        before[RESIDUAL] += values

    for old, states in enumerate(saved):
        for key, values in states.items():
            name, role, first, count = key.split("\n")
            if RESIDUAL not in values or (name in encoded and role in ("worker", "aggregator")):
                continue
            if role in ("worker", OF_GRADIENT):
                if old % world == rank:
                    share = np.asarray(values[RESIDUAL], np.float32) * np.float32(world / len(saved))
                    add(key_text(name, OF_GRADIENT, int(first), int(count)), share)
            elif rank == 0:
                add(key_text(name, OF_AVERAGE, int(first), int(count)), np.asarray(values[RESIDUAL], np.float32))
    return result


def _role_in(partition: Partition, tensor: Compressed, ranks: Ranks) -> tuple[str, Codec]:
    """This rank's role in a partition's average, empty for none, and the codec with which it encodes there."""
    workers, aggregator = ranks.by(tensor.topology).encoders(partition.owner)
    if ranks.rank == aggregator:
        return "aggregator", tensor.codec.for_aggregate()
    return ("worker" if ranks.rank in workers else ""), tensor.codec


def _add(
    result: dict[str, dict[str, Floats]],
    tensor: Compressed,
    partition: Partition,
    workers: Sequence[dict[str, Floats]],
    aggregators: dict[str, Floats],
    ranks: Ranks,
) -> None:
    """`workers`: of all old ranks."""
    new_workers, aggregator = ranks.encoders(partition.owner)
    encoders = sorted({*new_workers, aggregator} - {-1})
    if ranks.rank not in encoders:
        return
    followed = workers[encoders.index(ranks.rank) :: len(encoders)]
    part = slice(partition.first, partition.first + partition.count)
    world = np.float32(ranks.world)
    own: dict[str, Floats] = {}
    for name, values in _sum(followed).items():
        if name == RESIDUAL:
            own[name] = values[part] * (world / np.float32(len(workers)))
        elif name != _COVERED:
            covered = sum(each[_COVERED][part] for each in followed if name in each)
            own[name] = values[part] / np.maximum(covered, np.float32(1))
    average = {name: values[part].copy() for name, values in aggregators.items() if name != _COVERED}
    if ranks.rank == aggregator:
        if RESIDUAL in own:
            # An aggregator adds its own values unencoded, so its part of the residual goes to the average at once.
            average[RESIDUAL] = average.get(RESIDUAL, 0) + own[RESIDUAL] / world
        own = {}
    else:
        if aggregator < 0 and RESIDUAL in average and ranks.rank == encoders[0]:
            # Without an aggregator a worker sends it, and the average divides it.
            own[RESIDUAL] = own.get(RESIDUAL, 0) + average[RESIDUAL] * world
        average = {}
    for role, states in (("worker", own), ("aggregator", average)):
        if states:
            key = key_text(tensor.name, role, tensor.first + partition.first, partition.count)
            result[key] = {name: values[:: block_of(tensor.codec, name)] for name, values in states.items()}


def _assembled(tensor: Compressed, saved: SavedStates, role: str) -> dict[str, Floats]:
    """The states that a rank has saved of the tensor, or of its piece, in this role, with a value for each element.
    Elements that it has not saved are zero. _COVERED has ones at the elements that it has saved."""
    found: dict[str, Floats] = {}
    for key, states in saved.items():
        name, of, first, count = key.split("\n")
        start = max(int(first), tensor.first)
        end = min(int(first) + int(count), tensor.first + tensor.count)
        if (name, of) == (tensor.name, role) and start < end:
            ones = np.ones(int(count), np.float32)
            going_on = {state: values for state, values in states.items() if state in {RESIDUAL, *tensor.codec.states}}
            for state, saved_values in {**going_on, _COVERED: ones}.items():
                values = _spread(tensor, state, saved_values, int(count))
                into = found.setdefault(state, np.zeros(tensor.count, np.float32))
                into[start - tensor.first : end - tensor.first] = values[start - int(first) : end - int(first)]
    return found


def _spread(tensor: Compressed, state: str, values: Floats, count: int) -> Floats:
    """The value of each of `count` elements. Partitions and pieces begin with a block of the state."""
    block = block_of(tensor.codec, state)
    if len(values) != length_of(count, block):
        raise InvalidArgument(
            f"the state '{state}' of '{tensor.name}' has {len(values)} values for {count} elements, and its codec "
            f"keeps {length_of(count, block)}: it is of another codec"
        )
    return values if block == 1 else np.repeat(values, block)[:count]


def _sum(each: Any) -> dict[str, Floats]:
    total: dict[str, Floats] = {}
    for states in each:
        for name, values in states.items():
            total[name] = total[name] + values if name in total else values.copy()
    return total
