# SPDX-License-Identifier: Apache-2.0
"""Codecs with merge_decoded(): the aggregator's own values count as decoded from its own encoding, as all others do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hipress
from hipress import _core
from hipress.errors import Unsupported
from tests.cases import each
from tests.core.casync.engine_world import allreduce, run_ranks, spec

pytestmark = pytest.mark.slow

Floats = NDArray[np.float32]
SIGNSGD = Path(__file__).parents[3] / "examples" / "compll" / "signsgd.cll"
#: Elements: one, parts of a byte, and several partitions of 8192 bytes, so that every rank is an aggregator.
COUNTS = (1, 7, 4097, 40_000)
OPTIONS = {"partition_bytes": 8192}


def values_of(rank: int, count: int) -> Floats:
    """Magnitudes of 1e-4 to 1e4: a value that is added without its encoding outvotes all signs. Some are zeros."""
    generator = np.random.default_rng([rank, count])
    magnitude = 10.0 ** generator.uniform(-4, 4, count)
    return (magnitude * generator.integers(-1, 2, count)).astype(np.float32)


def votes(world: int, count: int) -> Floats:
    signs = [np.where(values_of(rank, count) < 0, np.float32(-1), np.float32(1)) for rank in range(world)]
    return np.sum(signs, axis=0, dtype=np.float32)


def averages(codec: str, topology: str, world: int) -> list[dict[int, Floats]]:
    def body(engine: _core.Engine) -> dict[int, Floats]:
        return {
            count: allreduce(engine, f"w{count}", values_of(engine.rank, count), codec=codec, topology=topology)
            for count in COUNTS
        }

    return run_ranks(world, body, options=OPTIONS)


@each("world", [2, 3, 4, 5])
@each("topology", ["ps", "allgather"])
def test_the_average_is_the_majority(topology: str, world: int) -> None:
    codec = hipress.load_codec(SIGNSGD)
    by_rank = averages(codec, topology, world)
    for count in COUNTS:
        expected = votes(world, count)
        if topology == "ps":  # the aggregator encodes the sum once more, as its sign
            expected = np.where(expected < 0, np.float32(-1), np.float32(1))
        else:
            expected = expected * np.float32(1 / world)
        for found in by_rank:
            assert found[count].tobytes() == expected.tobytes(), count


def test_without_it_the_aggregator_outvotes_the_others(tmp_path: Path) -> None:
    """The values of this test tell the two kinds of codecs apart, and the messages have the same bytes."""
    text = SIGNSGD.read_text().replace("merge_decoded();", "").replace("Signsgd", "Signraw")
    (tmp_path / "signraw.cll").write_text(text)
    raw, voting = hipress.load_codec(tmp_path / "signraw.cll"), hipress.load_codec(SIGNSGD)
    assert not _core.create_codec(raw).merges_decoded
    assert _core.create_codec(voting).merges_decoded
    expected = np.where(votes(3, 40_000) < 0, np.float32(-1), np.float32(1))
    found = averages(raw, "ps", 3)[0][40_000]
    assert (found != expected).mean() > 0.05

    def sent(codec: str) -> list[int]:
        def body(engine: _core.Engine) -> int:
            allreduce(engine, "w", values_of(engine.rank, 40_000), codec=codec)
            engine.allgather("done", b"")
            return engine.counters()["bytes_sent"]

        return run_ranks(3, body, options=OPTIONS)

    assert sent(raw) == sent(voting)


def test_random_numbers_and_factors_are_those_of_a_contribution(tmp_path: Path) -> None:
    """Sums of quarters are exact, so ps sends the sum that allgather makes of all ranks' messages without an error."""
    (tmp_path / "roundup.cll").write_text("""
        void RoundupEncode(float* gradient, uint8* compressed) {
            merge_decoded();
            float step = 0.25;
            int8* level = map(gradient, [&](float x) -> int8 { return floor(x / step + random<float>(0, 1)); });
            compressed = concat(step, level);
        }
        void RoundupDecode(uint8* compressed, float* gradient) {
            extract(compressed, float step, int8 level[gradient.size]);
            gradient = map(level, [&](int8 l) -> float { return l * step; });
        }
    """)
    codec = hipress.load_codec(tmp_path / "roundup.cll")

    def summed(topology: str, count: int) -> list[Floats]:
        def body(engine: _core.Engine) -> Floats:
            values = np.random.default_rng(engine.rank).standard_normal(count).astype(np.float32)
            return allreduce(engine, "w", values, codec=codec, op="sum", prescale=0.5, topology=topology)

        return run_ranks(3, body, options={"seed": 5, **OPTIONS})

    for count in (1, 5000):  # one value is sent without the codec, whose message would be longer
        for one, other in zip(summed("ps", count), summed("allgather", count), strict=True):
            assert one.tobytes() == other.tobytes()


@each("topology", ["ring", "butterfly", "hierarchical", "hierarchical(allgather)"])
def test_topologies_that_send_sums_of_some_ranks(topology: str) -> None:
    codec = hipress.load_codec(SIGNSGD)

    def body(engine: _core.Engine) -> None:
        with pytest.raises(Unsupported, match=r"tensor 'w': codec signsgd merges every rank's .* use ps or allgather"):
            engine.declare([spec("w", np.ones(1000, np.float32), codec=codec, topology=topology)])

    run_ranks(1, body)


def test_absent_ranks_and_values_that_are_not_finite() -> None:
    codec = hipress.load_codec(SIGNSGD)

    def body(engine: _core.Engine) -> tuple[Floats, Floats]:
        one, other = engine.declare([spec(name, np.ones(5000, np.float32), codec=codec) for name in ("w", "v")])
        voted, broken = np.empty(5000, np.float32), values_of(engine.rank, 5000)
        engine.wait(engine.submit(one, values_of(engine.rank, 5000) if engine.rank != 1 else None, voted))
        broken[17] = np.nan if engine.rank == 2 else 0
        engine.wait(engine.submit(other, broken, broken))
        return voted, broken

    signs = [np.where(values_of(rank, 5000) < 0, -1, 1) for rank in (0, 2)]
    for voted, broken in run_ranks(3, body, options=OPTIONS):
        assert np.array_equal(voted, np.where(signs[0] + signs[1] < 0, -1, 1))
        assert np.isnan(broken[17])
