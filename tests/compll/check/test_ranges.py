# SPDX-License-Identifier: Apache-2.0
"""Limits of parameters, widths and lengths that a program can state."""

from __future__ import annotations

import numpy as np
import pytest

from hipress.compll import Interpreter, compile_text
from hipress.errors import InvalidArgument
from tests.compll.programs import encoder, floats


def _parameter(field: str, **params: float) -> bytes:
    text = f"""
        param XParams {{ {field} }}
        void XEncode(float* gradient, uint8* compressed, XParams params) {{ compressed = concat(params.a); }}
    """
    return Interpreter(compile_text(text, complete=False), **params).encode(floats(1))


@pytest.mark.parametrize(
    ("field", "inside", "outside"),
    [
        ("int32 a = 5 in [1, inf);", 2**31 - 1, 0),
        ("int32 a = 5 in (-inf, 7);", -(2**31), 7),
        ("uint8 a = 5 in (-inf, 200];", 0, 201),
        ("float a = 5 in (-inf, 7];", -1e38, 8),
    ],
)
def test_infinity_is_a_limit(field: str, inside: float, outside: float) -> None:
    assert _parameter(field, a=inside)
    with pytest.raises(InvalidArgument):
        _parameter(field, a=outside)


@pytest.mark.parametrize(("wide", "size"), [(False, 1), (True, 2)])
def test_a_choice_is_a_width(wide: bool, size: int) -> None:
    text = """
        param XParams { bool wide = false; }
        void XEncode(float* gradient, uint8* compressed, XParams params) {
            uint<(params.wide ? 7 : 3)>* x = map(gradient, [&](float g) -> uint<(params.wide ? 7 : 3)> { return g; });
            compressed = concat(x);
        }
    """
    run = Interpreter(compile_text(text, complete=False), wide=wide)
    assert len(run.encode(floats(1, 2))) == run.max_encoded_bytes(2) == size


def test_a_vector_may_be_as_long_as_what_a_filter_keeps() -> None:
    run = encoder("""
        float* kept = filter(gradient, [&](float x) -> bool { return x > 0; });
        int* number = range(kept.size);
        float* half = fill(kept.size, 0.5);
        float* sum = map(kept, number, half, [&](float x, int i, float h) -> float { return x + i + h; });
        compressed = concat(take(sum, 5));
    """)
    assert run.encode(floats(1, -1, 2)) == floats(1.5, 3.5).tobytes()
    assert run.max_encoded_bytes(3) == 12
    assert run.max_encoded_bytes(9) == 20
    assert np.frombuffer(run.encode(floats(*range(1, 10))), "<f4").tolist() == [1.5, 3.5, 5.5, 7.5, 9.5]
