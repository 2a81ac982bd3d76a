# SPDX-License-Identifier: Apache-2.0
"""Users' programs with agree() and add(), in the engine and by their definition: whatever stands around agree()."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import hipress
from hipress import _core
from hipress.compll import Interpreter, compile_text
from tests.core.casync.engine_world import run_ranks, spec
from tests.core.casync.summed.reference import Reference

Floats = NDArray[np.float32]

pytestmark = pytest.mark.slow

#: A scalar of the whole gradient, a branch, a state that is written before agree(), random numbers after it.
AROUND = """
param AroundParams {
    int32 levels = 20 in [1, 127];
    int32 block = 64 in [16, 65536];
}
void AroundEncode(float* gradient, uint8* compressed, state float* residual, state float* velocity,
                  AroundParams params) {
    float total = sum(map(gradient, abs));
    float limit;
    if (gradient.size > 1000) {
        limit = 2 * total / gradient.size;
    } else {
        limit = 1000.0;
    }
    float* moved = map(gradient, velocity, [&](float g, float v) -> float {
        return 0.5 * v + max(min(g, limit), -limit);
    });
    velocity = moved;
    float* value = map(moved, residual, [&](float a, float b) -> float { return a + b; });
    float* greatest = agree(reduce_blocks(map(value, abs), 0.0, max, params.block), max);
    float* least = reduce_blocks(value, 0.0, min, params.block);
    (int8* level, residual) = map(value, spread(greatest, params.block), spread(least, params.block),
                                  [&](float x, float g, float l) -> (int8, float) {
        float exact = g > 0 && l < 0 ? x / g * params.levels : 0.0;
        float most = params.levels;
        float level = max(min(floor(exact + random<float>(0, 1)), most), -most);
        return level, x - level * (g / params.levels);
    });
    compressed = concat(greatest, add(level, params.levels));
}
void AroundDecode(uint8* compressed, float* gradient, AroundParams params) {
    extract(compressed, float greatest[blocks(gradient.size, params.block)], int8 level[gradient.size]);
    gradient = map(level, spread(greatest, params.block), [&](int8 l, float g) -> float {
        return l * (g / params.levels);
    });
}
"""

#: The smallest value of each block is the common one: a codec of offsets.
LEAST = """
void LeastEncode(float* gradient, uint8* compressed) {
    float* least = agree(reduce_blocks(gradient, 0.0, min, 32), min);
    int8* level = map(gradient, spread(least, 32), [&](float x, float l) -> int8 {
        return l < 0 ? max(min(round(x / -l * 9), 9.0), -9.0) : 0.0;
    });
    compressed = concat(least, add(level, 9));
}
void LeastDecode(uint8* compressed, float* gradient) {
    extract(compressed, float least[blocks(gradient.size, 32)], int8 level[gradient.size]);
    gradient = map(level, spread(least, 32), [&](int8 l, float s) -> float { return l * -s / 9; });
}
"""


@pytest.mark.parametrize("text", [AROUND, LEAST], ids=["around", "least"])
def test_each_step_is_that_of_the_definition(tmp_path: Path, text: str) -> None:
    (tmp_path / "program.cll").write_text(text)
    codec = hipress.load_codec(tmp_path / "program.cll")
    world, counts, steps = 3, (100, 5000), 4

    def values_of(rank: int, step: int, count: int) -> Floats:
        return np.random.default_rng([rank, step, count]).standard_normal(count).astype(np.float32)

    def body(engine: _core.Engine) -> dict[int, tuple[int, list[Floats]]]:
        found = {}
        for count in counts:
            (tensor,) = engine.declare([spec(f"w{count}", values_of(0, 0, count), codec=codec)])
            results = []
            for step in range(steps):
                output = values_of(engine.rank, step, count)
                engine.wait(engine.submit(tensor, output, output))
                results.append(output)
            found[count] = tensor, results
        return found

    by_rank = run_ranks(world, body, options={"seed": 3})
    for count in counts:
        number = by_rank[0][count][0]
        reference = Reference(Interpreter(compile_text(text)), count, world, seed=3, tensor=number)
        for step in range(steps):
            expected = reference.step([values_of(rank, step, count) for rank in range(world)])
            for found in by_rank:
                np.testing.assert_array_equal(found[count][1][step], expected, err_msg=f"{count}, step {step}")
