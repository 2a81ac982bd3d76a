# SPDX-License-Identifier: Apache-2.0
"""pack_blocks and unpack_blocks: codes whose width differs from block to block."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from hipress.compll import Interpreter, compile_text
from hipress.errors import CorruptPayload
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import floats, vector

#: Widths of -1 to 9 for blocks of 37, no multiple of a word; codes that do not fit; other results beside them.
PROGRAM = """
void VariedEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    float* peak = reduce_blocks(map(value, abs), 0.0, max, 37);
    int* width = map(peak, range(blocks(gradient.size, 37)), [&](float p, int i) -> int {
        return p > 1e30 ? 8 : i % 11 - 1;
    });
    (uint8* code, float* left) = map(value, spread(peak, 37), spread(width, 37),
                                     [&](float x, float p, int w) -> (uint8, float) {
        return p > 0 ? abs(x) / p * (1 << w) : 255.0, x * 0.25;
    });
    uint4* rank = map(range(gradient.size), [&](int i) -> uint4 { return i % 16; });
    int* words = pack_blocks(code, width, 37);
    int* others = pack_blocks(rank, width, 37);
    residual = left;
    compressed = concat(words.size, width, take(words, gradient.size), take(others, gradient.size));
}

void VariedDecode(uint8* compressed, float* gradient) {
    int n = blocks(gradient.size, 37);
    extract(compressed, int32 size, int32 width[n], int32 words[size], int32* others);
    uint8* rank = unpack_blocks(others, width, 37, gradient.size);
    gradient = map(unpack_blocks(words, width, 37, gradient.size), rank, spread(width, 37),
                   [&](uint8 c, uint8 r, int w) -> float { return c + 0.125 * r + 1000 * w; });
}
"""


def _packed(codes: list[float], widths: list[int], block: int) -> list[int]:
    """What pack_blocks makes of the codes, as unsigned words."""
    before = (
        "uint8* code = map(gradient, [&](float x) -> uint8 { return x; });\n"
        f"int* width = map(range(blocks(gradient.size, {block})), [&](int i) -> int {{ return "
        + "".join(f"i == {i} ? {width} : " for i, width in enumerate(widths))
        + "0; });"
    )
    words = vector(f"take(pack_blocks(code, width, {block}), gradient.size)", "int", floats(*codes), before)
    return [int(word) & 0xFFFFFFFF for word in words]


def test_each_block_begins_with_a_word_and_has_its_width() -> None:
    assert _packed([1, 2, 3, 0, 15, 9, 255], [2, 4, 8], 3) == [0b111001, 0x9F0, 0xFF]


def test_a_code_that_does_not_fit_becomes_the_greatest_that_does() -> None:
    assert _packed([1, 7, 8, 200], [3], 4) == [1 | 7 << 3 | 7 << 6 | 7 << 9]


def test_widths_are_0_to_8() -> None:
    assert _packed([1, 2, 3, 4], [-5, 0, 1, 99], 1) == [1, 4]


def test_words_span_codes_of_three_bits() -> None:
    packed = sum(5 << 3 * i for i in range(20))
    assert _packed([5] * 20, [3], 20) == [packed & 0xFFFFFFFF, packed >> 32]


_HALVES = """
void HalvesEncode(float* gradient, uint8* compressed) {
    int* width = map(range(blocks(gradient.size, 32)), [&](int i) -> int { return 1 + i % 2; });
    uint2* code = map(gradient, [&](float x) -> uint2 { return x; });
    int* words = take(pack_blocks(code, width, 32), gradient.size);
    compressed = concat(words);
}

void HalvesDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32* words);
    int* width = map(range(blocks(gradient.size, 32)), [&](int i) -> int { return 1 + i % 2; });
    gradient = map(unpack_blocks(words, width, 32, gradient.size), [&](uint8 c) -> float { return c; });
}
"""


def test_decode_refuses_another_number_of_words() -> None:
    run = Interpreter(compile_text(_HALVES))
    message = run.encode(np.ones(64, np.float32))
    assert len(message) == 12
    assert run.decode(message, 64).tolist() == [1.0] * 64
    with pytest.raises(CorruptPayload, match="unpack_blocks: 4 words, the widths need 3"):
        run.decode(message + struct.pack("<i", 0), 64)
    with pytest.raises(CorruptPayload, match="unpack_blocks: 2 words, the widths need 3"):
        run.decode(message[:8], 64)


def test_bits_behind_a_blocks_last_code_do_not_count() -> None:
    run = Interpreter(compile_text(_HALVES))
    assert run.decode(struct.pack("<I", 0xFFFFFFF8), 3).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize("program", [PROGRAM, _HALVES], ids=["varied", "halves"])
def test_all_targets_do_the_same(program: str, tmp_path: Path) -> None:
    same_on_all_targets(program, tmp_path)
