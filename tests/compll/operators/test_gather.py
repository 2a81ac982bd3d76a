# SPDX-License-Identifier: Apache-2.0
"""gather computes its elements where they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import floats, vector

PROGRAM = """
void PickEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    int* at = filter(range(gradient.size), [&](int i) -> bool { return value[i] > 0; });
    float* picked = gather(value, at);
    residual = scatter(value, at, 0.0);
    compressed = concat(at.size, at, picked);
}

void PickDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 count, int32 at[count], float picked[count]);
    int* same = map(at, [&](int i) -> int { return i; });
    float* dense = scatter(fill(gradient.size, 0.0), at, picked);
    gradient = scatter(fill(gradient.size, 0.0), at, gather(dense, same));
}
"""


def test_meaning() -> None:
    index = "int* at = map(range(3), [&](int i) -> int { return 2 - i; });"
    assert np.array_equal(vector("gather(gradient, at)", "float", floats(5, 6, 7), index), floats(7, 6, 5))


@pytest.mark.slow
def test_all_targets_do_the_same(tmp_path: Path) -> None:
    same_on_all_targets(PROGRAM, tmp_path)
