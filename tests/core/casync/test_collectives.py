# SPDX-License-Identifier: Apache-2.0
"""Allgather, alltoall, reducescatter, minimum, maximum and product: values, shapes that differ, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import InvalidArgument, Mismatch, PeerLost, Timeout, Unsupported
from tests.cases import each
from tests.core.casync.engine_world import allreduce, identical, outcomes, run_ranks, spec

WORLDS = [1, 2, 3, 4, 7]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
DTYPES = ["float32", "float64", "float16", "bfloat16", *INTEGERS, "bool"]
#: NumPy has no bfloat16, so its bytes travel as integers.
STORED = {"bfloat16": "uint16"}


def move(
    engine: _core.Engine, kind: str, name: str, values: NDArray[Any], rows: list[int], dtype: str | None = None
) -> tuple[NDArray[Any], list[int]]:
    row = values.shape[1:]
    described = _core.TensorSpec(
        name, collective=kind, dtype=dtype or values.dtype.name, count=0, shape=str(["*", *row]), transient=True
    )
    blocks = _core.move_blocks(engine, described, values, int(np.prod(row)), rows)
    result, received = blocks.wait()
    return result.view(values.dtype).reshape(-1, *row), received


def block(dtype: str, rows: int, rank: int, peer: int = 0) -> NDArray[Any]:
    """Values that depend on the sending rank and, in an alltoall, on the receiving rank."""
    return (np.arange(rows * 3).reshape(rows, 3) + 7 * rank + 3 * peer).astype(STORED.get(dtype, dtype))


@each("world_size", WORLDS)
@each("dtype", DTYPES)
def test_allgather_puts_blocks_of_any_length_behind_each_other(world_size: int, dtype: str) -> None:
    for lengths in (lambda rank: rank, lambda rank: 5 - min(rank, 5), lambda rank: 0, lambda rank: 3000 * (rank % 2)):

        def body(engine: _core.Engine, lengths: Any = lengths) -> tuple[NDArray[Any], list[int]]:
            mine = block(dtype, lengths(engine.rank), engine.rank)
            return move(engine, "allgather", "x", mine, [len(mine)], dtype)

        expected = np.concatenate([block(dtype, lengths(rank), rank) for rank in range(world_size)])
        for result, rows in run_ranks(world_size, body):
            assert rows == [lengths(rank) for rank in range(world_size)]
            assert result.tobytes() == expected.tobytes()


@each("world_size", WORLDS)
@each("dtype", DTYPES)
def test_alltoall_hands_every_rank_its_part(world_size: int, dtype: str) -> None:
    for length in (
        lambda rank, peer: (rank + 2 * peer) % 4,
        lambda rank, peer: 0,
        lambda rank, peer: 1000 * (rank > 0),
    ):

        def body(engine: _core.Engine, length: Any = length) -> tuple[NDArray[Any], list[int]]:
            splits = [length(engine.rank, peer) for peer in range(world_size)]
            parts = [block(dtype, rows, engine.rank, peer) for peer, rows in enumerate(splits)]
            return move(engine, "alltoall", "x", np.concatenate(parts), splits, dtype)

        for rank, (result, rows) in enumerate(run_ranks(world_size, body)):
            assert rows == [length(peer, rank) for peer in range(world_size)]
            parts = [block(dtype, length(peer, rank), peer, rank) for peer in range(world_size)]
            assert result.tobytes() == np.concatenate(parts).tobytes()


def divided(rows: int, world_size: int) -> list[int]:
    return [rows // world_size + (rank < rows % world_size) for rank in range(world_size)]


def reducescatter(engine: _core.Engine, name: str, values: NDArray[Any], **options: Any) -> NDArray[Any]:
    (tensor,) = engine.declare([spec(name, values, collective="reducescatter", rows=len(values), **options)])
    result = np.empty((divided(len(values), engine.world_size)[engine.rank], *values.shape[1:]), values.dtype)
    engine.wait(engine.submit(tensor, values, result))
    return result


@each("world_size", WORLDS)
@each("rows", [0, 1, 5, 4096])
def test_reducescatter_is_what_a_rank_would_keep_of_the_allreduce(world_size: int, rows: int) -> None:
    values = [
        np.random.default_rng(rank).standard_normal((rows, 2, 3)).astype(np.float32) for rank in range(world_size)
    ]

    def body(engine: _core.Engine) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        mine = values[engine.rank]
        pairs = []
        for op in ("average", "sum", "min", "max", "product"):
            factor = 0.5 if op == "sum" else 1.0
            whole = allreduce(engine, f"all.{op}", mine, op=op, prescale=factor, postscale=3.0, partitions=1)
            part = reducescatter(engine, f"part.{op}", mine, op=op, prescale=factor, postscale=3.0)
            pairs.append((whole, part))
        return pairs

    ends = np.cumsum([0, *divided(rows, world_size)])
    for rank, pairs in enumerate(run_ranks(world_size, body)):
        for whole, part in pairs:
            assert part.tobytes() == whole[ends[rank] : ends[rank + 1]].tobytes()


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
@each("world_size", [1, 2, 4])
def test_min_max_and_product(topology: str, world_size: int) -> None:
    functions = {"min": np.minimum, "max": np.maximum, "product": np.multiply}

    def body(engine: _core.Engine) -> dict[tuple[str, str], NDArray[Any]]:
        results = {}
        for dtype in ("float32", "float64", "float16", *INTEGERS, "bool"):
            for op in functions:
                values = np.random.default_rng(engine.rank).integers(-3, 4, 70_000).astype(dtype)
                results[dtype, op] = allreduce(engine, f"{dtype}.{op}", values, op=op, topology=topology)
        return results

    by_rank = run_ranks(world_size, body, options={"hosts": [rank // 2 for rank in range(world_size)]})
    for (dtype, op), result in by_rank[0].items():
        values = [np.random.default_rng(rank).integers(-3, 4, 70_000).astype(dtype) for rank in range(world_size)]
        assert np.array_equal(result, functions[op].reduce(values, dtype=dtype)), (dtype, op)
        assert identical([results[dtype, op] for results in by_rank]), (dtype, op)


@each("op", ["min", "max", "product"])
@each("poisoned", [0, 1, 2])
def test_a_nan_of_any_rank_is_the_result(op: str, poisoned: int) -> None:
    def body(engine: _core.Engine) -> tuple[NDArray[Any], NDArray[Any]]:
        values = np.full(5, float(engine.rank + 1), np.float32)
        if engine.rank == poisoned:
            values[3] = np.nan
        return allreduce(engine, "w", values, op=op), allreduce(engine, "h", values.astype(np.float16), op=op)

    for single, half in run_ranks(3, body):
        for result in (single, half):
            assert np.isnan(result).tolist() == [False, False, False, True, False]


def refusal_of(dtype: str = "float32", **options: Any) -> Exception:
    def body(engine: _core.Engine) -> Exception | None:
        try:
            allreduce(engine, "w", np.ones(10_000, dtype), **options)
        except Exception as error:
            return error
        return None

    (error,) = run_ranks(1, body)
    assert error is not None
    return error


def test_what_min_max_and_product_cannot_do_is_said() -> None:
    for op in ("min", "max", "product"):
        assert isinstance(refusal_of(op=op, codec="onebit"), Unsupported)
    assert isinstance(refusal_of(op="median"), InvalidArgument)


@each("factor", ["prescale", "postscale"])
def test_bool_takes_no_factor(factor: str) -> None:
    assert isinstance(refusal_of("bool", op="sum", **{factor: 2.0}), Unsupported)


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
@each("world_size", [1, 2, 4])
def test_each_ranks_integers_are_scaled_and_truncated_before_they_are_combined(topology: str, world_size: int) -> None:
    def body(engine: _core.Engine) -> dict[tuple[str, str], NDArray[Any]]:
        results = {}
        for dtype in INTEGERS:
            for op in ("sum", "average", "min", "max", "product"):
                values = own_integers(engine.rank, dtype)
                before = values.copy()
                options = {"op": op, "prescale": 0.5, "postscale": 1.5, "topology": topology}
                results[dtype, op] = allreduce(engine, f"{dtype}.{op}", values, **options)
                assert np.array_equal(values, before)
                (tensor,) = engine.declare([spec(f"{dtype}.{op}.in place", values, **options)])
                engine.wait(engine.submit(tensor, values, values))
                assert np.array_equal(values, results[dtype, op])
        return results

    functions = {"sum": np.add, "average": np.add, "min": np.minimum, "max": np.maximum, "product": np.multiply}
    by_rank = run_ranks(world_size, body, options={"hosts": [rank // 2 for rank in range(world_size)]})
    for (dtype, op), result in by_rank[0].items():
        scaled = [np.trunc(own_integers(rank, dtype) * 0.5).astype(np.int64) for rank in range(world_size)]
        factor = 1.5 / world_size if op == "average" else 1.5
        expected = np.trunc(functions[op].reduce(scaled) * factor).astype(dtype)
        assert np.array_equal(result, expected), (dtype, op)
        assert identical([results[dtype, op] for results in by_rank]), (dtype, op)


def own_integers(rank: int, dtype: str) -> NDArray[Any]:
    low = 0 if dtype == "uint8" else -5
    return np.random.default_rng(rank).integers(low, 6, 70_000).astype(dtype)


def test_the_prescale_factor_of_a_minimum_is_applied_to_each_rank() -> None:
    def body(engine: _core.Engine) -> list[float]:
        values = np.array([1.0, -2.0], np.float32) * (engine.rank + 1)
        return [float(each) for each in allreduce(engine, "w", values, op="min", prescale=-2.0, postscale=3.0)]

    assert run_ranks(2, body) == [[-12.0, 12.0]] * 2


def test_integers_of_a_reducescatter_are_scaled_before_they_are_added() -> None:
    def body(engine: _core.Engine) -> list[int]:
        values = np.full((4, 1), 3, np.int32)
        scaled = reducescatter(engine, "w", values, op="sum", prescale=0.5)
        return [int(each) for each in scaled.ravel()]

    assert run_ranks(2, body) == [[2, 2], [2, 2]]


DISAGREEMENTS = [
    ("allgather", {"dtype": "float64"}),
    ("allgather", {"row": 4}),
    ("alltoall", {"row": 4}),
    ("alltoall", {"dtype": "int32"}),
    ("alltoall", {"kind": "allgather"}),
]


@pytest.mark.parametrize(("kind", "of_rank_1"), DISAGREEMENTS, ids=str)
def test_ranks_that_disagree_all_learn_it(kind: str, of_rank_1: dict[str, Any]) -> None:
    def body(engine: _core.Engine) -> None:
        differs = of_rank_1 if engine.rank == 1 else {}
        values = np.zeros((3, differs.get("row", 2)), differs.get("dtype", "float32"))
        mine = differs.get("kind", kind)
        move(engine, mine, "x", values, [3] if mine == "allgather" else [1, 1, 1])

    for outcome in outcomes(3, body):
        assert isinstance(outcome, Mismatch)
        assert "'x'" in str(outcome)


@pytest.mark.parametrize("differs", [{"op": "max"}, {"shape": (5, 4)}, {"dtype": "float64"}])
def test_ranks_that_disagree_on_a_reducescatter_all_learn_it(differs: dict[str, Any]) -> None:
    def body(engine: _core.Engine) -> None:
        own = {"op": "sum", "shape": (4, 4), "dtype": "float32"} | (differs if engine.rank == 1 else {})
        reducescatter(engine, "x", np.zeros(own["shape"], own["dtype"]), op=own["op"])

    for outcome in outcomes(3, body):
        assert isinstance(outcome, Mismatch)


def test_a_rank_that_does_not_come_is_named() -> None:
    def body(engine: _core.Engine) -> None:
        if engine.rank != 2:
            move(engine, "allgather", "late", np.zeros((2, 2), np.float32), [2])

    first, second, _ = outcomes(3, body, options={"timeout": 1.0}, linger=5.0)
    for outcome in (first, second):
        assert isinstance(outcome, Timeout | PeerLost)
        assert "late" in str(outcome)
        assert "rank 2" in str(outcome)


def test_allgathers_may_be_started_in_different_orders() -> None:
    names = [f"t{index}" for index in range(20)]

    def body(engine: _core.Engine) -> dict[str, bytes]:
        order = names if engine.rank == 0 else names[::-1]
        values = {name: np.full((engine.rank + 1, 2), int(name[1:]), np.int32) for name in names}
        started = {}
        for name in order:
            described = _core.TensorSpec(
                name, collective="allgather", dtype="int32", count=0, shape="[*, 2]", transient=True
            )
            started[name] = _core.move_blocks(engine, described, values[name], 2, [engine.rank + 1])
        return {name: blocks.wait()[0].tobytes() for name, blocks in started.items()}

    for results in run_ranks(3, body):
        assert results == {name: np.full((6, 2), int(name[1:]), np.int32).tobytes() for name in names}


def test_what_is_not_waited_for_ends_too() -> None:
    def body(engine: _core.Engine) -> None:
        described = _core.TensorSpec("x", collective="allgather", dtype="int8", count=0, shape="[*]", transient=True)
        _core.move_blocks(engine, described, np.zeros(100_000, np.int8), 1, [100_000])

    run_ranks(3, body)
