# SPDX-License-Identifier: Apache-2.0
"""A conversion of round(x) to a narrow signed integer takes x itself, because the conversion rounds."""

from __future__ import annotations

import pytest

from hipress.compll import compile_text
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.targets import TARGETS

PROGRAM = """
void NearEncode(float* gradient, uint8* compressed) {
    compressed = concat(map(gradient, [&](float x) -> int8 { BODY }));
}
void NearDecode(uint8* compressed, float* gradient) {
    extract(compressed, int8 level[gradient.size]);
    gradient = map(level, [&](int8 l) -> float { return l; });
}
"""


def emitted(body: str, target: str) -> str:
    text = PROGRAM.replace("BODY", body)
    return TARGETS[target].codec(compile_text(text), Origin("near.cll", text, builtin=False))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "body",
    [
        "return round(x * 3);",
        "float level = round(x * 3); return level;",
        "float l = round(x * 3); float l2 = l; return l;",
    ],
)
def test_the_conversion_rounds(body: str, target: str) -> None:
    text = emitted(body, target)
    assert "ops::nearestSigned(" in text
    assert "ops::nearestSigned(ops::roundOf(" not in text
    if "level" in body:
        rounded = text.split("ops::roundOf(")[1].split(")")[0]
        assert f"ops::nearestSigned({rounded}, 8u)" in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", ["return floor(x);", "float level = floor(x); return level;"])
def test_other_whole_numbers_are_computed_first(body: str, target: str) -> None:
    text = emitted(body, target)
    assert "ops::nearestSigned(" in text
    assert "ops::floorOf(" in text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "body",
    ["return x;", "float level = round(x) * 3; return level;", "float x2 = round(x); float x3 = x2 + 0.5; return x3;"],
)
def test_other_numbers_are_cut(body: str, target: str) -> None:
    assert "ops::nearestSigned(" not in emitted(body, target)
