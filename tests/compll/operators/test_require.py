# SPDX-License-Identifier: Apache-2.0
"""require(a.size == b.size): lengths that the checker learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress.compll import CompileError
from hipress.errors import CorruptPayload
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import decoder, floats

#: A mask, and the chosen values behind it; the sizes are checked in more than one way.
PROGRAM = """
void MaskEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    int* index = filter(range(gradient.size), [&](int i) -> bool { return value[i] > 0.5; });
    uint1* mask = map(value, [&](float x) -> uint1 { return x > 0.5; });
    residual = scatter(value, index, 0.0);
    uint3* low = map(index, [&](int i) -> uint3 { return i & 7; });
    compressed = concat(gradient.size, mask, index.size, gather(value, index), low);
}

void MaskDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, uint1 mask[n], int32 count, float value[count], uint3 low[count]);
    require(n == gradient.size && count >= 0);
    float* base = map(mask, range(gradient.size), [&](uint1 m, int i) -> float { return m * 0.25 + i % 2; });
    int* index = filter(range(gradient.size), [&](int i) -> bool { return mask[i]; });
    require(index.size == value.size);
    float* both = map(value, index, low, [&](float v, int i, uint3 l) -> float { return i % 8 <= 7 ? v + l : 0.0; });
    gradient = scatter(base, index, both);
}
"""
BODY = """
    extract(compressed, uint1 mask[gradient.size], int32 count, float value[count]);
    int* index = filter(range(gradient.size), [&](int i) -> bool {{ return mask[i]; }});
    {}
    gradient = scatter(fill(gradient.size, 0.0), index, value);
"""


def test_a_mask_with_the_values_behind_it() -> None:
    run = decoder(BODY.format("require(index.size == value.size);"))
    good = b"\x05" + b"\x02\0\0\0" + floats(4, 5).tobytes()
    assert run.decode(good, 3).tolist() == [4, 0, 5]
    with pytest.raises(CorruptPayload, match="the requirement in line"):
        run.decode(b"\x07" + good[1:], 3)


@pytest.mark.parametrize("statement", ["", "require(index.size >= value.size);", "require(index.size == count + 1);"])
def test_nothing_else_makes_lengths_equal(statement: str) -> None:
    with pytest.raises(CompileError, match="sizes differ"):
        decoder(BODY.format(statement))


@pytest.mark.slow
def test_all_targets_do_the_same(tmp_path: Path) -> None:
    same_on_all_targets(PROGRAM, tmp_path)
