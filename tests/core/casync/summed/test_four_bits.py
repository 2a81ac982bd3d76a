# SPDX-License-Identifier: Apache-2.0
"""Levels up to 7: a rank's own levels travel as 4 bits, sums as 8, and no result changes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument, Mismatch
from tests.cases import each
from tests.core.casync.engine_world import identical, outcomes, run_ranks, spec
from tests.core.casync.summed.test_refused import loaded
from tests.core.casync.summed.test_steps import compare, random_steps, ranks_of

Integers = NDArray[np.int8]
TOPOLOGIES = ["ps", "ring", "butterfly", "allgather", "hierarchical", "hierarchical(ring)", "hierarchical(allgather)"]
HOSTS = {2: [0, 1], 3: [0, 0, 1], 4: [0, 0, 1, 1]}
HEADER = 32


def small(rank: int, count: int, step: int = 0) -> Integers:
    return np.random.default_rng([rank, count, step]).integers(-7, 8, count, np.int8)


def summed(values: list[Integers | None], **options: Any) -> list[tuple[Integers, int]]:
    """By rank: the sum, and the bytes that the rank has sent. None: a rank without values."""
    like = next(one for one in values if one is not None)
    engine_options = {"hosts": options.pop("hosts")} if "hosts" in options else None

    def body(engine: _core.Engine) -> tuple[Integers, int]:
        (tensor,) = engine.declare([spec("w", like, op="sum", **{"greatest": 7} | options)])
        own = values[engine.rank]
        result = np.full_like(like, 99) if own is None else own.copy()
        engine.wait(engine.submit(tensor, None if own is None else result, result))
        engine.allgather("all have sent", b"")
        return result, engine.counters()["bytes_sent"]

    return run_ranks(len(values), body, options=engine_options, read_neighbours=False)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@each("world", [2, 3, 4])
@each("count", [0, 1, 2, 7, 1023, 1024, 1025, 40_001])
@each("partitions", [1, 3])
def test_sums_are_those_of_eight_bits(topology: str, world: int, count: int, partitions: int) -> None:
    values = [small(rank, count) for rank in range(world)]
    expected = np.sum(values, axis=0, dtype=np.int8)
    for result, _ in summed([*values], topology=topology, partitions=partitions, hosts=HOSTS[world]):
        np.testing.assert_array_equal(result, expected)


@each("topology", ["ps", "ring", "butterfly", "allgather"])
@each("absent", [0, 1, 2])
def test_a_rank_without_values_adds_nothing(topology: str, absent: int) -> None:
    values: list[Integers | None] = [small(rank, 5001) for rank in range(3)]
    values[absent] = None
    expected = np.sum([one for one in values if one is not None], axis=0, dtype=np.int8)
    for result, _ in summed(values, topology=topology, partitions=3):
        np.testing.assert_array_equal(result, expected)


@each("world", [2, 3, 4])
@each("count", [1, 2, 7, 1023, 1024, 1025, 40_001])
def test_the_push_to_an_aggregator_has_half_the_bytes(world: int, count: int) -> None:
    values = [small(rank, count) for rank in range(world)]
    for greatest, up in ((7, (count + 1) // 2), (8, count), (0, count)):
        sent = sum(bytes_ for _, bytes_ in summed([*values], greatest=greatest, partitions=1))
        assert sent == (world - 1) * (up + count + 2 * HEADER), greatest


@pytest.mark.parametrize("codec", ["thc", "int8_shared(levels=7)"])
@pytest.mark.parametrize("count", [30, 1023, 1024, 1025, 5000])
def test_each_step_is_that_of_the_definition(codec: str, count: int) -> None:
    name, _, option = codec.partition("(levels=")
    compare(random_steps(3, count), codec=name, levels=int(option.rstrip(")") or 7))


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_results_are_those_of_levels_that_travel_as_eight_bits(tmp_path: Path, topology: str) -> None:
    """Two programs make the same levels, up to 7. One says that they are up to 8, so all its messages have 8 bits."""
    four_bits, eight_bits = loaded(tmp_path, "Fourbits", 7, 7), loaded(tmp_path, "Eightbits", 7, 8)
    for world in (2, 3, 4):
        for count in (33, 1023, 1024, 1025, 30_000):
            for partitions in (0, 3):
                options = {"topology": topology, "partitions": partitions, "engine_options": {"hosts": HOSTS[world]}}
                steps = random_steps(world, count)
                results = [
                    np.array(found)
                    for codec in (four_bits, eight_bits)
                    for found, _ in ranks_of(steps, codec, **options)  # type: ignore[arg-type]
                ]
                assert identical(results), (world, count, partitions)


def test_bytes_on_the_wire() -> None:
    """Per element 4 bits to the aggregator and 8 bits back."""
    count, world = 1 << 18, 3

    def body(engine: _core.Engine) -> int:
        values = np.ones(count, np.float32)
        (tensor,) = engine.declare([spec("w", values, codec="thc")])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("all have sent", b"")
        return engine.counters()["bytes_sent"]

    sent = run_ranks(world, body, read_neighbours=False)
    payload = (world - 1) * (2 * 4 * count // 1024 + (count + 2) // 2 + count + 1)
    assert payload <= sum(sent) <= payload + 2000  # headers


def test_a_trace_has_the_bytes_that_travel(tmp_path: Path) -> None:
    file, count = tmp_path / "trace.json", 40_001

    def body(engine: _core.Engine) -> None:
        engine.start_trace()
        (tensor,) = engine.declare([spec("w", small(0, count), op="sum", greatest=7, partitions=1)])
        result = small(engine.rank, count)
        engine.wait(engine.submit(tensor, result, result))
        engine.allgather("all have sent", b"")
        engine.stop_trace(str(file))

    run_ranks(2, body)
    spans = [(event["name"], event["args"]["bytes"]) for event in json.loads(file.read_text()) if event["ph"] == "X"]
    half = (count + 1) // 2
    expected = [("encode", count), ("merge", count), ("recv", count), ("recv", half), ("send", count), ("send", half)]
    assert sorted(span for span in spans if span[0] != "decode") == sorted(expected)


@pytest.mark.parametrize("codec", ["thc", "int8_shared(levels=7)"])
@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather"])
def test_a_rank_that_cannot_encode_makes_every_rank_write_nan(codec: str, topology: str) -> None:
    steps = random_steps(4, 3001)
    bad = [array.copy() for array in steps[1]]
    bad[2][1234] = np.nan
    found = ranks_of([steps[0], bad, steps[2]], codec, topology=topology, partitions=3)
    skipped = ranks_of([steps[0], steps[2]], codec, topology=topology, partitions=3)
    for (results, states), (expected, kept) in zip(found, skipped, strict=True):
        assert np.isnan(results[1]).all()
        assert identical([results[2], expected[1]])
        assert identical([states["residual"], kept["residual"]])


def test_a_value_that_does_not_fit_is_an_error_and_no_other_value() -> None:
    for value in (8, -9, 127, -128):
        values = [small(rank, 3001) for rank in range(2)]
        values[0][3000] = values[1][3000] = value
        with pytest.raises(InvalidArgument, match=r"'w', partition 0: rank . has a value that is not in -8..7.* 5 at"):
            summed([*values], greatest=5, partitions=1)


def test_only_sums_without_factors_are_packed() -> None:
    values = [small(rank, 1000) for rank in range(2)]
    for options in ({"op": "max"}, {"prescale": 2.0, "postscale": 0.5}, {"prescale": 2.0}, {"op": "average"}):

        def body(engine: _core.Engine, options: dict[str, Any] = options) -> int:
            (tensor,) = engine.declare([spec("w", values[0], **{"op": "sum", "greatest": 7} | options)])
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
            engine.allgather("all have sent", b"")
            return engine.counters()["bytes_sent"]

        assert sum(run_ranks(2, body)) == 2 * (1000 + HEADER), options


def test_ranks_agree_on_it() -> None:
    def body(engine: _core.Engine) -> None:
        engine.agree("list", [spec("w", small(0, 100), op="sum", greatest=7 if engine.rank == 0 else 0)])

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        assert "magnitudes up to 7" in str(outcome)


def test_a_greatest_magnitude_is_one_of_integers_of_the_host() -> None:
    for dtype, greatest in ((np.float32, 7), (np.int8, -1)):
        with pytest.raises(InvalidArgument, match=rf"tensor 'w': a greatest magnitude .* it is {greatest} for"):
            run_ranks(
                1,
                lambda engine, dtype=dtype, greatest=greatest: engine.declare(
                    [spec("w", np.zeros(4, dtype), op="sum", greatest=greatest)]
                ),
            )


def test_the_unused_half_of_the_last_byte_is_zero() -> None:
    def changed(source: int, destination: int, payload: bytes) -> bool | bytes:
        return payload[:-1] + bytes([payload[-1] | 0x10]) if len(payload) == 51 else True

    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("w", small(0, 101), op="sum", greatest=7)])
        result = small(engine.rank, 101)
        engine.wait(engine.submit(tensor, result, result))

    with pytest.raises(CorruptPayload, match="unused half of its last byte is not 0"):
        run_ranks(2, body, intercept=changed, linger=0.5)


@pytest.mark.parametrize(
    ("topology", "packed", "sums"),
    [("ps", 3, 3), ("ring", 1, 5), ("butterfly", 2, 4), ("allgather", 12, 0), ("hierarchical", 0, 6)],
)
def test_which_messages_have_four_bits(topology: str, packed: int, sums: int) -> None:
    """One partition, four ranks, all messages by their sizes. On two hosts the ranks add before they send."""
    sizes: list[int] = []

    def seen(source: int, destination: int, payload: bytes) -> bool:
        sizes.append(len(payload))
        return True

    def body(engine: _core.Engine) -> None:
        (tensor,) = engine.declare([spec("w", small(0, 101), op="sum", greatest=7, topology=topology)])
        result = small(engine.rank, 101)
        engine.wait(engine.submit(tensor, result, result))
        engine.allgather("all have sent", b"")

    run_ranks(4, body, options={"hosts": HOSTS[4]}, intercept=seen, read_neighbours=False)
    assert Counter(sizes) == Counter({51: packed, 101: sums}) - Counter()
