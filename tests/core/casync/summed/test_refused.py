# SPDX-License-Identifier: Apache-2.0
"""What is refused: levels whose sum could overflow, ranks that differ, and programs that break their word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hipress
from hipress import _core
from hipress.errors import HipressError, InvalidArgument, Mismatch, Unsupported
from tests.core.casync.engine_world import identical, outcomes, run_ranks, spec

Floats = NDArray[np.float32]

#: Ranks agree on sums of magnitudes, and every level is one greater than add() says.
PROGRAM = """
param P {{ int32 block = 64 in [16, 65536]; }}
void {name}Encode(float* gradient, uint8* compressed, P params) {{
    float* total = agree(reduce_blocks(map(gradient, abs), 0.0, [&](float a, float b) -> float {{ return a + b; }},
                                       params.block), sum);
    int8* level = map(gradient, spread(total, params.block), [&](float x, float t) -> int8 {{
        return t > 0 ? round(x / t * {most}) : 0.0;
    }});
    compressed = concat(total, add(level, {said}));
}}
void {name}Decode(uint8* compressed, float* gradient, P params) {{
    extract(compressed, float total[blocks(gradient.size, params.block)], int8 level[gradient.size]);
    gradient = map(level, spread(total, params.block), [&](int8 l, float t) -> float {{ return l * t / {most}; }});
}}
"""


def loaded(folder: Path, name: str, most: int, said: int) -> str:
    (folder / f"{name}.cll").write_text(PROGRAM.format(name=name, most=most, said=said))
    return hipress.load_codec(folder / f"{name}.cll")


def test_sums_that_could_overflow() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(1000, np.float32)
        engine.declare([spec("fits", values, codec="int8_shared(levels=42)")])
        with pytest.raises(InvalidArgument, match=r"tensor 'w': .*holds the sum of 2 ranks at most, and there are 3"):
            engine.declare([spec("w", values, codec="int8_shared(levels=43)")])

    run_ranks(3, body)


def test_what_it_cannot_do() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(1000, np.float32)
        with pytest.raises(Unsupported, match=r"codec int8_shared sends each tensor alone, .* in group 'g'"):
            engine.declare([spec("w", values, codec="int8_shared", group="g")])
        with pytest.raises(Unsupported, match="floating-point"):
            engine.declare([spec("w", values.astype(np.int32), codec="int8_shared")])
        device = _core.SimulatedDevice(seed=0, delay=0.0)
        with pytest.raises(Unsupported, match="codec int8_shared computes on the host, and the tensor is on a device"):
            engine.declare([spec("w", values, codec="int8_shared", device=device)])
        for op in ("min", "max", "product"):
            with pytest.raises(Unsupported, match="codecs compress values that are added up"):
                engine.declare([spec("w", values, codec="int8_shared", op=op)])

    run_ranks(1, body)


def test_ranks_with_statistics_of_different_sizes() -> None:
    def body(engine: _core.Engine) -> None:
        values = np.ones(5000, np.float32)
        block = 256 if engine.rank == 0 else 512
        (tensor,) = engine.declare([spec("w", values, codec=f"int8_shared(block={block})")])
        engine.wait(engine.submit(tensor, values, values))

    for outcome in outcomes(2, body):
        assert isinstance(outcome, Mismatch)
        assert "block=256" in str(outcome)
        assert "block=512" in str(outcome)


@pytest.mark.slow
def test_a_program_that_makes_greater_levels_than_it_says(tmp_path: Path) -> None:
    codec = loaded(tmp_path, "Liar", most=64, said=3)

    def body(engine: _core.Engine) -> None:
        values = np.zeros(1000, np.float32)
        values[0] = 1
        (tensor,) = engine.declare([spec("w", values, codec=codec)])
        engine.wait(engine.submit(tensor, values, values))

    found = outcomes(2, body)
    assert all(isinstance(outcome, HipressError) for outcome in found), found
    assert any("made a level of 32, and its add() says that none is greater than 3" in str(each) for each in found)


@pytest.mark.slow
def test_ranks_can_agree_on_sums(tmp_path: Path) -> None:
    codec = loaded(tmp_path, "Total", most=40, said=40)

    def body(engine: _core.Engine) -> tuple[Floats, Floats]:
        good, bad = (np.random.default_rng(engine.rank).standard_normal(1000).astype(np.float32) for _ in range(2))
        bad[3] = np.inf if engine.rank == 1 else -np.inf if engine.rank == 2 else 0
        (tensor,) = engine.declare([spec("w", good, codec=codec)])
        for values in (good, bad):
            engine.wait(engine.submit(tensor, values, values))
        return good, bad

    results = run_ranks(3, body)
    assert identical([good for good, _ in results])
    mean = np.mean([np.random.default_rng(rank).standard_normal(1000) for rank in range(3)], axis=0)
    blocks = [np.random.default_rng(rank).standard_normal(1000).astype(np.float32) for rank in range(3)]
    totals = sum(np.add.reduceat(np.abs(block), range(0, 1000, 64)) for block in blocks)
    bound = np.repeat(totals, 64)[:1000] / 40 / 2
    assert (np.abs(results[0][0] - mean) <= bound * 1.001).all()
    assert all(np.isnan(bad).all() for _, bad in results)
