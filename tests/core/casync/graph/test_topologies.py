# SPDX-License-Identifier: Apache-2.0
"""Every topology works with every codec, with every number of ranks, size and number of partitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument
from tests.cases import each
from tests.core.casync.engine_world import allreduce, gradients, identical, run_ranks, spec

FLAT = ["ps", "ring", "butterfly", "allgather"]
TOPOLOGIES = [*FLAT, "hierarchical", "hierarchical(ring)", "hierarchical(allgather)"]
CODECS = [
    *("none", "fp16", "onebit", "tbq(threshold=0.5)", "terngrad", "dgc(ratio=0.1)", "graddrop(ratio=0.1)"),
    *("bf16", "int8", "int4", "fp4_e2m1", "randomk(ratio=0.1)"),
]
WITH_RESIDUALS = [codec for codec in CODECS if codec not in ("none", "fp16", "terngrad", "bf16", "int8")]
WORLD_SIZES = [1, 2, 3, 4, 5, 7, 8]
#: Numbers of ranks with codecs of few kinds: raw values, a residual, and messages whose length depends on the values.
FEW = ["none", "onebit", "dgc(ratio=0.1)"]
WORLDS = [(size, codec) for size in WORLD_SIZES for codec in (CODECS if size in (3, 4, 8) else FEW)]
SIZES = [0, 1, 7, 1000, 4097, 200_003]


def hosts_of(world_size: int) -> list[int]:
    """The host of each rank: hosts have one, two and three ranks, and not all ranks of a host have consecutive
    numbers."""
    return [(0, 1, 1, 2, 0, 2, 2, 0)[rank] for rank in range(world_size)]


@lru_cache(maxsize=64)
def inputs(world_size: int, size: int) -> Sequence[NDArray[np.float32]]:
    """The values of all ranks; they are kept, because drawing a million takes longer than synchronising them."""
    values = gradients(world_size, size, seed=size + 1)
    for array in values:
        array.flags.writeable = False
    return values


def synchronised(
    world_size: int, topology: str, codec: str, cases: list[tuple[int, int]], steps: int = 2
) -> list[list[NDArray[np.float32]]]:
    """By rank: the results of the cases (size and partitions). In each step all cases are in flight at once."""
    of_all = [inputs(world_size, size) for size, _ in cases]

    def body(engine: _core.Engine) -> list[NDArray[np.float32]]:
        values = [of_ranks[engine.rank] for of_ranks in of_all]
        tensors = engine.declare(
            [
                spec(f"{size} in {partitions}", value, codec=codec, topology=topology, partitions=partitions)
                for (size, partitions), value in zip(cases, values, strict=True)
            ]
        )
        results = []
        for _ in range(steps):
            outputs = [value.copy() for value in values]
            waiting = [engine.submit(tensor, out, out) for tensor, out in zip(tensors, outputs, strict=True)]
            for operation in waiting:
                engine.wait(operation)
            results += outputs
        return results

    return run_ranks(world_size, body, options={"hosts": hosts_of(world_size), "compute_threads": 2})


@pytest.mark.slow
@each(("world_size", "codec"), WORLDS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_replicas_are_identical_and_runs_repeat(topology: str, world_size: int, codec: str) -> None:
    partitions = sorted({1, 2, world_size, 2 * world_size + 1})
    cases = [(size, pieces) for size in SIZES[:-1] for pieces in partitions] + [(SIZES[-1], partitions[-1])]
    by_rank = synchronised(world_size, topology, codec, cases)
    for outputs in zip(*by_rank, strict=True):
        assert identical(outputs)
    again = synchronised(world_size, topology, codec, cases)
    for first, second in zip(by_rank[0], again[0], strict=True):
        assert first.tobytes() == second.tobytes()
    if codec == "none":
        for (size, _), output in zip(cases * 2, by_rank[0], strict=True):
            exact = np.mean(inputs(world_size, size), axis=0, dtype=np.float64)
            # The error is relative to the terms: a sum near zero keeps the rounding of its terms.
            scale = np.mean(np.abs(inputs(world_size, size)), axis=0, dtype=np.float64)
            assert np.all(np.abs(output - exact) <= 1e-6 * scale)


@each("partitions", [1, 2, 9])
@each("size", [1_000_003])
@each("codec", ["none", "onebit"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_large_tensors_in_any_number_of_partitions(topology: str, codec: str, size: int, partitions: int) -> None:
    for outputs in zip(*synchronised(4, topology, codec, [(size, partitions)]), strict=True):
        assert identical(outputs)


@each("codec", ["int8", "terngrad", "fp4_e2m1(error_feedback=false)"])
def test_a_butterfly_loses_less_than_a_ring(codec: str) -> None:
    """On the way to its owner, a butterfly encodes a partial sum at most log₂ N times, and a ring up to N−1 times."""
    world_size, count = 8, 100_000
    average = np.mean(inputs(world_size, count), axis=0)

    def lost(topology: str) -> float:
        found = synchronised(world_size, topology, codec, [(count, world_size)], steps=1)[0][0]
        return float(np.sum((found - average) ** 2) / np.sum(average**2))

    assert lost("butterfly") < 0.75 * lost("ring")


@each("codec", WITH_RESIDUALS)
@each("world_size", WORLD_SIZES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_any_rank_drops_is_in_a_residual(topology: str, world_size: int, codec: str) -> None:
    """The sums over all ranks and both roles satisfy: inputs + residuals before = output + residuals after."""
    count, steps = 5000, 3
    momentum = 0.9 if codec.startswith("dgc") else 0.0
    values = [gradients(world_size, count, seed=step) for step in range(steps)]

    def body(engine: _core.Engine) -> list[tuple[NDArray[Any], ...]]:
        def kept(role: str, state: str) -> NDArray[Any]:
            found = engine.state("w", role, state) if ("w", role, state) in engine.states() else np.empty(0)
            return found if found.size else np.zeros(count, np.float32)

        options = {"codec": codec, "topology": topology, "partitions": 2 * world_size + 1, "op": "sum"}
        (tensor,) = engine.declare([spec("w", values[0][0], **options)])
        seen = []
        for step in range(steps):
            result = values[step][engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            residual = kept("worker", "residual").astype(np.float64) + kept("aggregator", "residual")
            seen.append((result, residual, kept("worker", "velocity")))
        return seen

    by_rank = run_ranks(world_size, body, options={"hosts": hosts_of(world_size)})
    before = speed = np.zeros(count)
    for step in range(steps):
        outputs, residuals, velocities = zip(*(seen[step] for seen in by_rank), strict=True)
        assert identical(outputs)
        after = np.sum(residuals, axis=0)
        entering = np.sum(values[step], axis=0, dtype=np.float64) + momentum * speed + before
        before, speed = after, np.sum(velocities, axis=0, dtype=np.float64)
        assert np.max(np.abs(entering - outputs[0] - after)) <= 1e-6 * np.max(np.abs(entering)) * world_size


@each("codec", ["none", "onebit"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_ranks_without_values_take_part(topology: str, codec: str) -> None:
    world_size, count = 4, 3000
    values = gradients(world_size, count)

    def body(engine: _core.Engine) -> tuple[NDArray[np.float32], bool, bool]:
        options = {"codec": codec, "topology": topology, "partitions": 4, "op": "sum"}
        (tensor,) = engine.declare([spec("w", values[0], **options)])
        result = values[engine.rank].copy()
        some = engine.wait(engine.submit(tensor, result if engine.rank == 2 else None, result))
        untouched = np.full(count, 7, np.float32)
        nobody = engine.wait(engine.submit(tensor, None, untouched))
        assert np.all(untouched == 7)
        return result, some, nobody

    seen = run_ranks(world_size, body, options={"hosts": hosts_of(world_size)})
    assert identical([result for result, _, _ in seen])
    assert all((some, nobody) == (False, True) for _, some, nobody in seen)
    if codec == "none":
        assert seen[0][0].tobytes() == values[2].tobytes()


@each("dtype", ["float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_other_types_are_summed(topology: str, dtype: str) -> None:
    values = [np.arange(2000).astype(dtype) % 50 + rank for rank in range(5)]

    def body(engine: _core.Engine) -> NDArray[Any]:
        return allreduce(engine, "w", values[engine.rank], topology=topology, partitions=3, op="sum")

    for result in run_ranks(5, body, options={"hosts": hosts_of(5)}):
        assert np.array_equal(result, np.sum(values, axis=0).astype(dtype))


@each("codec", ["none", "onebit"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_factors_are_applied_once(topology: str, codec: str) -> None:
    values = [np.full(4096, rank + 1, np.float32) for rank in range(4)]

    def body(engine: _core.Engine) -> NDArray[Any]:
        options = {"codec": codec, "topology": topology, "partitions": 4, "prescale": 0.5, "postscale": 3.0}
        return allreduce(engine, "w", values[engine.rank], **options)

    for result in run_ranks(4, body, options={"hosts": hosts_of(4)}):
        assert np.allclose(result, 2.5 * 1.5, rtol=1e-6)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_is_not_finite_comes_out_everywhere(topology: str) -> None:
    def body(engine: _core.Engine) -> NDArray[Any]:
        values = np.ones(5000, np.float32)
        if engine.rank == 1:
            values[1234] = np.inf
        return allreduce(engine, "w", values, codec="onebit", topology=topology, partitions=2)

    for result in run_ranks(4, body, options={"hosts": hosts_of(4)}):
        assert not np.isfinite(result[1234])


@each("world_size", WORLD_SIZES)
def test_auto_is_allgather_between_two_and_ps_between_more(world_size: int) -> None:
    def graphs(topology: str, hosts: list[int]) -> list[list[dict[str, Any]]]:
        places = itertools.product(range(world_size), [1, 3])
        return [_core.build_topology(topology, rank, world_size, pieces, 1, hosts) for rank, pieces in places]

    assert graphs("auto", []) == graphs("allgather" if world_size == 2 else "ps", [])
    hosts = [rank % 2 for rank in range(world_size)]
    assert graphs("hierarchical", hosts) == graphs("hierarchical(ps)", hosts)


@each(
    "name",
    ["tree", "", "auto(ps)", "hierarchical(auto)", "hierarchical(tree)", "hierarchical(", "hierarchical()", "ring(ps)"],
)
def test_other_names_are_refused(name: str) -> None:
    def body(engine: _core.Engine) -> None:
        with pytest.raises(InvalidArgument, match="choose one of: ps, ring, butterfly, allgather, hierarchical"):
            engine.declare([spec("w", np.zeros(3, np.float32), topology=name)])

    run_ranks(1, body)
