# SPDX-License-Identifier: Apache-2.0
"""From some step on, tensors travel another way: with another topology, other partitions or another codec. No residual
is lost."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from tests.core.casync.engine_world import gradients, identical, run_ranks, spec
from tests.core.casync.graph.test_topologies import TOPOLOGIES, hosts_of

Floats = NDArray[np.float32]
COUNT = 5000
CODECS = ["onebit", "tbq(threshold=0.5)", "dgc(ratio=0.1, momentum=0)", "graddrop(ratio=0.1)"]
FACTORS = {"prescale": 0.5, "postscale": 3.0}


class Tensors:
    """The tensors of one rank. Unsent residuals join the next values, as TensorList's users do it."""

    def __init__(self, engine: _core.Engine, specs: list[_core.TensorSpec]) -> None:
        self._engine = engine
        self._lists = 1
        self.handles = engine.agree("list", specs)
        self.held_back: list[Floats | None] = [None] * len(specs)

    def send_by(self, specs: list[_core.TensorSpec]) -> None:
        self._lists += 1
        agreed = self._engine.agree_anew(f"list {self._lists}", self.handles, specs)
        self.handles = [handle for handle, _ in agreed]
        for index, (_, values) in enumerate(agreed):
            if values is not None:
                assert self.held_back[index] is None, "the residuals have been sent"
                self.held_back[index] = values

    def step(self, values: list[Floats]) -> list[Floats]:
        results = []
        for index, each in enumerate(values):
            held = self.held_back[index]
            results.append(each.copy() if held is None else each + held)
            self.held_back[index] = None
        waiting = [
            self._engine.submit(handle, result, result) for handle, result in zip(self.handles, results, strict=True)
        ]
        for operation in waiting:
            self._engine.wait(operation)
        return results


#: The values of all ranks; they are kept, because drawing them takes longer than synchronising them.
_kept = lru_cache(maxsize=256)(gradients)


def arrived(
    world_size: int, ways: list[list[dict[str, Any]]], op: str, steps: int = 2, options: dict[str, Any] | None = None
) -> tuple[list[Floats], list[Floats]]:
    """By tensor: the difference between the contributions and the results, before the last way and at the end.

    `ways[i]` says how each tensor travels for some steps; the last way keeps no residual.
    """
    factor = 1.5 * (1.0 if op == "sum" else 1.0 / world_size)

    def inputs(rank: int, step: int) -> list[Floats]:
        return [_kept(world_size, COUNT, seed=100 * step + index)[rank] for index in range(len(ways[0]))]

    def body(engine: _core.Engine) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        like = np.empty(COUNT, np.float32)
        specs = [[spec(f"t{index}", like, op=op, **FACTORS, **way) for index, way in enumerate(each)] for each in ways]
        tensors = Tensors(engine, specs[0])
        total = [np.zeros(COUNT) for _ in specs[0]]
        early = total
        for turn, each in enumerate(specs):
            if turn > 0:
                tensors.send_by(each)
            if turn == len(specs) - 1:
                early = [values.copy() for values in total]
            for step in range(steps * turn, steps * turn + steps):
                for index, result in enumerate(tensors.step(inputs(engine.rank, step))):
                    total[index] += result
        assert engine.states() == []
        return early, total

    by_rank = run_ranks(world_size, body, options={"hosts": hosts_of(world_size), **(options or {})})
    for results in zip(*(total for _, total in by_rank), strict=True):
        assert identical(results)

    def given(turns: int) -> list[NDArray[Any]]:
        per_step = [
            [np.sum(values, axis=0, dtype=np.float64) for values in zip(*each, strict=True)]
            for each in ([inputs(rank, step) for rank in range(world_size)] for step in range(steps * turns))
        ]
        return [factor * np.sum(values, axis=0) for values in zip(*per_step, strict=True)]

    early, late = by_rank[0]
    return (
        [a - b for a, b in zip(given(len(ways) - 1), early, strict=True)],
        [a - b for a, b in zip(given(len(ways)), late, strict=True)],
    )


def largest(differences: list[Floats]) -> float:
    return max(float(np.abs(each).max()) for each in differences)


CHANGES = [(4, "average", *pair) for pair in itertools.product(TOPOLOGIES, TOPOLOGIES)]
CHANGES += [(5, "sum", old, new) for old, new in itertools.pairwise([*TOPOLOGIES, TOPOLOGIES[0]])]


@pytest.mark.parametrize(("world_size", "op", "before", "after"), CHANGES)
def test_no_residual_is_lost_from_one_topology_codec_and_cut_to_another(
    world_size: int, op: str, before: str, after: str
) -> None:
    """After the last steps, without a codec, the results contain all contributions of all ranks."""
    first, second = [], []
    for number, (old, new) in enumerate(itertools.product(CODECS, CODECS)):
        first.append({"codec": old, "topology": before, "partitions": (1, 2, world_size, 9)[number % 4]})
        second.append({"codec": new, "topology": after, "partitions": (3, 1, 2 * world_size, 4)[number // 4]})
    last = [{"codec": "none", "topology": after} for _ in first]
    lacking, left = arrived(world_size, [first, second, last], op)
    assert largest(left) < 2e-4
    assert min(float(np.abs(each).max()) for each in lacking) > 0.1, "codecs had kept residuals"


def test_no_residual_is_lost_when_tensors_join_groups_change_them_and_leave_them() -> None:
    """The group gets other members, another codec, other partitions and another topology; its name may stay the
    same."""
    ways = [
        [{"group": "g", "codec": "onebit"}] * 2
        + [{"codec": "tbq(threshold=0.5)"}]
        + [{"group": "h", "codec": "onebit"}] * 3,
        [{"codec": "onebit"}]
        + [{"group": "g", "codec": "graddrop(ratio=0.1)", "partitions": 3}] * 4
        + [{"codec": "none"}],
        [{"group": "g", "codec": "onebit", "topology": "ring", "partitions": 4}] * 6,
        [{"codec": "onebit", "topology": "hierarchical"}] * 3 + [{"group": "i", "codec": "none"}] * 3,
        [{"codec": "none"}] * 6,
    ]
    lacking, left = arrived(4, ways, "average")
    assert largest(left) < 2e-4
    assert min(float(np.abs(each).max()) for each in lacking[:3]) > 0.1, "codecs had kept residuals"


@pytest.mark.parametrize("codec", ["none", "fp16", "terngrad"])
def test_what_was_dropped_joins_the_next_values_where_nothing_is_remembered(codec: str) -> None:
    first = [{"codec": old, "partitions": 3} for old in CODECS]
    second = [{"codec": codec, "topology": "ring", "partitions": 2} for _ in CODECS]

    def body(engine: _core.Engine) -> bool:
        like = np.ones(COUNT, np.float32)
        tensors = Tensors(engine, [spec(f"t{index}", like, **way) for index, way in enumerate(first)])
        for step in range(3):
            tensors.step([gradients(4, COUNT, seed=step)[engine.rank] for _ in first])
        tensors.send_by([spec(f"t{index}", like, **way) for index, way in enumerate(second)])
        return engine.states() == [] and all(each is not None for each in tensors.held_back)

    assert all(run_ranks(4, body))


def test_momentum_stays_with_the_rank_that_encodes_an_element_still() -> None:
    """The other ranks forget their velocity: it is no residual, and another rank cannot use it."""

    def body(engine: _core.Engine) -> tuple[Floats, Floats]:
        like = np.ones(COUNT, np.float32)
        tensors = Tensors(engine, [spec("w", like, codec="dgc(ratio=0.1)", partitions=1)])
        for step in range(3):
            tensors.step([gradients(4, COUNT, seed=step)[engine.rank]])
        before = engine.state("w", "worker", "velocity")
        tensors.send_by([spec("w", like, codec="dgc(ratio=0.1)", partitions=4)])
        return before, engine.state("w", "worker", "velocity")

    pieces = [range(0, 2048), range(2048, 3072), range(3072, 4096), range(4096, 5000)]
    for before, after in run_ranks(4, body):
        forgotten = [piece for piece in pieces if after.size == 0 or not after[piece].any()]
        if not before.any():
            continue  # this rank was the aggregator of the whole tensor, which applies no momentum
        assert len(forgotten) == 1, "this rank now aggregates one partition"
        kept = [piece for piece in pieces if piece not in forgotten]
        assert all(np.array_equal(before[piece], after[piece]) for piece in kept)


def test_where_an_element_is_encoded_as_before_no_bit_changes() -> None:
    """The tensor is divided into halves, and one half keeps the aggregator of the whole tensor."""
    count = 4096

    def body(engine: _core.Engine) -> tuple[dict[str, Floats], dict[str, Floats]]:
        like = np.ones(count, np.float32)
        tensors = Tensors(engine, [spec("w", like, codec="onebit", partitions=1)])
        for step in range(3):
            tensors.step([gradients(3, count, seed=step)[engine.rank]])
        before = {role: engine.state("w", role, "residual") for role in ("worker", "aggregator")}
        tensors.send_by([spec("w", like, codec="onebit", partitions=2)])
        assert tensors.held_back == [None]
        return before, {role: engine.state("w", role, "residual") for role in ("worker", "aggregator")}

    for before, after in run_ranks(3, body):
        for role, values in before.items():
            if values.any():
                first = slice(0, count // 2)
                assert values[first].tobytes() == after[role][first].tobytes()
