# SPDX-License-Identifier: Apache-2.0
"""A tile looks up a table at once if the table fits into registers and the pass reads no larger table."""

from __future__ import annotations

from hipress.compll import compile_text
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.targets import TARGETS
from tests.cases import each

DECODE = """
table float level[{size}] = [&](int i) -> float {{ return i; }};
table float large[129] = [&](int i) -> float {{ return i; }};
void PickEncode(float* gradient, uint8* compressed) {{
    compressed = concat(map(gradient, [&](float x) -> uint8 {{ return x + level[3] + large[4]; }}));
}}
void PickDecode(uint8* compressed, float* gradient) {{
    extract(compressed, uint8 code[gradient.size]);
    gradient = map(code, [&](uint8 c) -> float {{ return {value}; }});
}}
"""


def looks_up(size: int, value: str) -> int:
    text = DECODE.format(size=size, value=value)
    return TARGETS["cpu"].codec(compile_text(text), Origin("pick.cll", text)).count(", count, s_x")


@each("size", [9, 32, 33, 128])
def test_a_table_that_fits_into_registers(size: int) -> None:
    assert looks_up(size, "level[c]") == 1
    assert looks_up(size, "level[c] + level[c & 3]") == 2


@each(
    ("size", "value"),
    [
        (8, "level[c]"),  # a choice between constants is faster
        (129, "level[c]"),
        (128, "level[c] + large[c]"),  # a gather follows, and arrays between loops would cost more
        (128, "large[c] + level[c]"),
        (128, "level[5] * c"),
    ],
)
def test_other_tables(size: int, value: str) -> None:
    assert looks_up(size, value) == 0
