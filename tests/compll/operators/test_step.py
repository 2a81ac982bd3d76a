# SPDX-License-Identifier: Apache-2.0
"""step(): a program that sends another part of the tensor in each step, the same part on all ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import encoder, normal

PROGRAM = """
void PartsEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    int part = (step() + random<int, shared>(0, 4)) % 4;
    int* at = filter(range(gradient.size), [&](int i) -> bool { return i % 4 == part; });
    int* index = take(at, (gradient.size + 3) / 4);
    residual = scatter(value, index, 0.0);
    float first = step() < 1 ? 1.0 : 0.0;
    compressed = concat(part, first, index.size, gather(value, index));
}

void PartsDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 part, float first, int32 n, float value[n]);
    int* at = filter(range(gradient.size), [&](int i) -> bool { return i % 4 == part; });
    require(at.size == value.size);
    gradient = scatter(fill(gradient.size, 0.0), at, value);
}
"""


@pytest.mark.parametrize(("step", "expected"), [(0, 0), (7, 7), (2**31, 0), (2**31 + 5, 5), (2**63 + 1, 1)])
def test_meaning(step: int, expected: int) -> None:
    message = encoder("compressed = concat(step(), gradient);").encode(normal(3), step=step)
    assert np.frombuffer(message, "<i4")[0] == expected


def test_a_function_named_step_is_the_programs_own() -> None:
    own = "lambda_func step = [&](float x) -> float { return 2 * x; };"
    message = encoder(f"{own}\ncompressed = concat(step(gradient[0]));").encode(np.ones(1, np.float32))
    assert np.frombuffer(message, "<f4")[0] == 2


@pytest.mark.slow  # it compiles
def test_all_targets_do_the_same(tmp_path: Path) -> None:
    same_on_all_targets(PROGRAM, tmp_path)
