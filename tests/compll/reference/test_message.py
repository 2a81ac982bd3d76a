# SPDX-License-Identifier: Apache-2.0
"""The bytes of messages: packing, layout, and messages that extract refuses."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress.compll.reference.message import pack, pack_trits, packed_bytes, unpack, unpack_trits
from hipress.errors import CorruptPayload, InvalidArgument
from tests.compll.programs import codec, decoder, encoder, floats


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@given(data=st.data())
def test_packing(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << width) - 1), max_size=70))
    packed = pack(np.array(values, np.uint8), width)
    number = sum(value << (width * i) for i, value in enumerate(values))
    assert packed == number.to_bytes(packed_bytes(len(values), width), "little")
    assert unpack(packed, len(values), width).tolist() == values


@given(st.lists(st.integers(0, 2), max_size=17))
def test_trits(values: list[int]) -> None:
    packed = pack_trits(np.array(values, np.uint8))
    assert len(packed) == -(-len(values) // 5)
    for byte, first in zip(packed, range(0, len(values), 5), strict=True):
        assert byte == sum(value * 3**place for place, value in enumerate(values[first : first + 5]))
    assert unpack_trits(packed, len(values)).tolist() == values


@pytest.mark.parametrize(
    ("data", "count"), [(b"\xf3", 5), (b"\xff", 5), (b"\x00\xf3\x00", 15), (b"\x03", 1), (b"\x51", 4)]
)
def test_bytes_that_are_no_trits_are_refused(data: bytes, count: int) -> None:
    run = decoder("extract(compressed, trit t[gradient.size]); gradient = map(t, [&](trit d) -> float { return d; });")
    with pytest.raises(CorruptPayload, match="a byte is no five digits 0, 1 and 2, or a digit is set beyond the last"):
        run.decode(data, count)


def test_a_single_trit_has_a_byte() -> None:
    assert encoder("trit t = gradient[0]; compressed = concat(t);").encode(floats(7.5)) == b"\x02"
    run = decoder("extract(compressed, trit t); gradient = fill(gradient.size, (float) t);")
    assert run.decode(b"\x01", 2).tolist() == [1, 1]
    with pytest.raises(CorruptPayload, match="a trit is 0, 1 or 2"):
        run.decode(b"\x03", 2)


def test_float16_is_rounded_to_even_and_may_be_infinite() -> None:
    run = encoder("compressed = concat(map(gradient, [&](float x) -> float16 { return x; }));")
    values = floats(1, 1 + 2**-11, 1 + 3 * 2**-11, 65519.9, 65520, -1e30, 2**-24, 2**-25, 3 * 2**-25, -0.0)
    assert run.max_encoded_bytes(10) == 20
    expected = struct.pack("<4e", 1, 1, 1 + 2**-9, 65504) + struct.pack("<2e", np.inf, -np.inf)
    assert run.encode(values) == expected + struct.pack("<4e", 2**-24, 0, 2**-23, -0.0)
    back = decoder("""
        extract(compressed, float16* half);
        require(half.size == gradient.size);
        gradient = map(half, [&](float16 x) -> float { return x; });
    """)
    assert back.decode(run.encode(values), 10).tolist()[3:7] == [65504, np.inf, -np.inf, 2**-24]


def test_a_residual_of_an_infinite_float16_is_not_kept() -> None:
    run = encoder(
        """
            float* value = map(gradient, kept, [&](float g, float k) -> float { return g + k; });
            float16* half = map(value, [&](float x) -> float16 { return x; });
            kept = map(value, half, [&](float x, float16 h) -> float { return x - h; });
            compressed = concat(half);
        """,
        "state float* kept",
    )
    state = run.new_state(2)
    assert run.encode(floats(1 + 2**-12, 2), state) == struct.pack("<2e", 1, 2)
    assert state["kept"].tolist() == [2**-12, 0]
    assert run.encode(floats(70000, 2), state) == b""
    assert state["kept"].tolist() == [2**-12, 0]


def test_layout() -> None:
    body = """
        uint2 small = 3;
        uint4* q = map(gradient, [&](float x) -> uint4 { return x; });
        int negative = -2;
        float half = 0.5;
        compressed = concat(small, q, negative, half, gradient);
    """
    message = encoder(body).encode(floats(1, 2, 3))
    assert message == b"\x03\x21\x03" + struct.pack("<if3f", -2, 0.5, 1, 2, 3)


DECODE = """
    extract(compressed, uint2 kind, int32 count, int32 index[count], float value[count], uint1 flag[3]);
    require(kind < 3);
    gradient = scatter(fill(gradient.size, 0.0), index, value);
"""


def message(kind: int = 1, indices: tuple[int, ...] = (0, 4), count: int | None = None, flags: int = 0) -> bytes:
    count = len(indices) if count is None else count
    values = [1.5 + i for i in range(len(indices))]
    return struct.pack(f"<Bi{len(indices)}i{len(indices)}fB", kind, count, *indices, *values, flags)


def test_extract() -> None:
    assert decoder(DECODE).decode(message(), 5).tolist() == [1.5, 0, 0, 0, 2.5]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (message()[:-1], "needs 1 bytes"),
        (message() + b"\0", "has 23 bytes, its fields take 22"),
        (message()[:3], "'count' needs 4 bytes"),
        (message(kind=4), "it has 2 bits"),
        (message(kind=3), "requirement in line"),
        (message(count=-1), "-1 elements"),
        (message(count=2**31 - 1), "needs"),
        (message(indices=(0, 5)), "index 5 in a vector of 5"),
        (message(indices=(-1, 4)), "index -1"),
        (message(indices=(4, 0)), "must increase"),
        (message(indices=(4, 4)), "must increase"),
        (message(flags=8), "beyond element 2"),
    ],
)
def test_corrupt(wrong: bytes, reason: str) -> None:
    output = np.arange(5, dtype=np.float32)
    with pytest.raises(CorruptPayload, match=reason):
        decoder(DECODE).decode_into(wrong, output)
    assert output.tolist() == [0, 1, 2, 3, 4]


def test_rest_of_the_message() -> None:
    body = "extract(compressed, uint8 first, float* rest);\nfloat s = sum(rest);\ngradient = fill(gradient.size, s);"
    run = decoder(body)
    assert run.decode(struct.pack("<B2f", 0, 1, 2), 1).tolist() == [3]
    with pytest.raises(CorruptPayload, match="5 bytes are left"):
        run.decode(bytes(6), 1)


def test_accumulate() -> None:
    run, output = decoder(DECODE), floats(10, 20, -0.0, 40, 50)
    run.decode_into(message(), output, accumulate=True)
    assert output.tolist() == [11.5, 20, 0, 40, 52.5]
    assert np.signbit(output[2]), "scatter changes only the named elements"


def test_no_elements_and_lost_gradients() -> None:
    run = decoder(DECODE)
    assert run.decode(b"", 0).size == 0
    with pytest.raises(CorruptPayload):
        run.decode(b"x", 0)
    assert np.isnan(run.decode(b"", 3)).all()


def test_complex_gradients_are_refused() -> None:
    """NumPy would drop the imaginary parts."""
    for dtype in (np.complex64, np.complex128):
        with pytest.raises(InvalidArgument, match=f"elements of type {np.dtype(dtype)}, and programs compute with"):
            codec("int8").encode(np.ones(4, dtype))  # type: ignore[arg-type]
    assert codec("int8").encode(np.ones(4)) == codec("int8").encode(floats(1, 1, 1, 1))  # type: ignore[arg-type]
