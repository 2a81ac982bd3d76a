# SPDX-License-Identifier: Apache-2.0
"""Elements whose bits span two bytes of a message: 3, 5, 6, 7 and 12 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hipress
from hipress import _core
from hipress.compll import Interpreter, compile_text
from hipress.compll.reference.message import pack, packed_bytes, unpack
from hipress.errors import CorruptPayload
from tests.compll.build import compilers
from tests.compll.programs import decoder, encoder, floats, normal


@given(width=st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12]), values=st.lists(st.integers(0, 4095), max_size=40))
def test_element_i_begins_at_bit_i_times_the_width(width: int, values: list[int]) -> None:
    codes = [value % (1 << width) for value in values]
    whole = sum(code << (width * i) for i, code in enumerate(codes))
    data = pack(np.array(codes, np.uint16), width)
    assert data == whole.to_bytes(packed_bytes(len(codes), width), "little")
    assert unpack(data, len(codes), width).tolist() == codes


def test_bits_behind_the_last_element_are_refused() -> None:
    body = "extract(compressed, uint3 x[gradient.size]); gradient = map(x, [&](uint3 c) -> float { return c; });"
    run = decoder(body)
    assert run.decode(bytes([0b10_001_111, 0b0]), 3).tolist() == [7, 1, 2]
    for wrong in (bytes([0, 0b10]), bytes([0]), bytes(3)):
        with pytest.raises(CorruptPayload):
            run.decode(wrong, 3)


def test_a_scalar_of_twelve_bits_has_two_bytes() -> None:
    assert encoder("uint12 x = 4097.5 * gradient[0]; compressed = concat(x);").encode(floats(1)) == b"\xff\x0f"
    run = decoder("extract(compressed, uint12 x); gradient = fill(gradient.size, (float) x);")
    assert run.decode(b"\x34\x02", 1).tolist() == [0x234]
    with pytest.raises(CorruptPayload, match="it has 12 bits"):
        run.decode(b"\x00\x10", 1)


@pytest.mark.slow
def test_threads_do_not_share_a_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of blocks of three bits, and trits of blocks and of elements: their bytes begin at other elements."""
    text = """
        void SharedEncode(float* gradient, uint8* compressed) {
            float* peak = reduce_blocks(gradient, 0.0, max, 5000);
            uint3* high = map(peak, [&](float p) -> uint3 { return p * 1.5; });
            trit* digit = map(gradient, [&](float x) -> trit { return x + 1; });
            trit* above = map(gradient, spread(peak, 5000), [&](float x, float p) -> trit { return x < p ? 2 : x; });
            compressed = concat(high, map(peak, [&](float p) -> trit { return p; }), digit, above);
        }
        void SharedDecode(uint8* compressed, float* gradient) {
            extract(compressed, uint3 high[blocks(gradient.size, 5000)], trit low[blocks(gradient.size, 5000)],
                    trit digit[gradient.size], trit above[gradient.size]);
            gradient = map(digit, above, range(gradient.size), [&](trit d, trit a, int i) -> float {
                return high[i / 5000] + low[i / 5000] + d * a;
            });
        }
    """
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compilers.quick(tmp_path)))
    (tmp_path / "shared.cll").write_text(text)
    codec = _core.create_codec(hipress.load_codec(tmp_path / "shared.cll"))
    gradient = np.repeat(normal(1000), 1300)
    expected = Interpreter(compile_text(text)).encode(gradient)
    assert all(codec.encode(gradient, threads=3) == expected for _ in range(20))
