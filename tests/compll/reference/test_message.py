# SPDX-License-Identifier: Apache-2.0
"""The bytes of messages: packing, layout, and messages that extract refuses."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress.compll.reference.message import pack, packed_bytes, unpack
from hipress.errors import CorruptPayload
from tests.compll.programs import decoder, encoder, floats


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@given(data=st.data())
def test_packing(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, (1 << width) - 1), max_size=70))
    packed = pack(np.array(values, np.uint8), width)
    number = sum(value << (width * i) for i, value in enumerate(values))
    assert packed == number.to_bytes(packed_bytes(len(values), width), "little")
    assert unpack(packed, len(values), width).tolist() == values


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
