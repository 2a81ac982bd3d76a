# SPDX-License-Identifier: Apache-2.0
"""Tables of constants, and the search for the nearest of their elements in each of its forms."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipress.compll import Interpreter, compile_text
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import floats

#: A table for each form of the search: few middles, upper bits that tell the middles apart, and halves.
PROGRAM = """
table float few[4] = {-1.5, -0.5, 0.25, 1.25};
table int32 half[20] = [&](int i) -> int { return 1 << i / 2; };
table float steep[20] = [&](int i) -> float { return half[i] * (i % 2 == 0 ? 0.001 : 0.0013); };
table float fine[300] = [&](int i) -> float { return (i - 150) * 0.013; };

void TablesEncode(float* gradient, uint8* compressed, state float* residual) {
    float* value = map(gradient, residual, [&](float g, float r) -> float { return g + r; });
    (uint2* a, uint8* b, int* c, residual) = map(value, [&](float x) -> (uint2, uint8, int, float) {
        int at = nearest(fine, x);
        return nearest(few, x), nearest(steep, abs(x)), at, x - fine[at];
    });
    uint8* odd = map(half, steep, [&](int h, float s) -> uint8 { return nearest(fine, h / (s - s)); });
    compressed = concat(fine.size, a, b, c, odd, half[3], few[gradient.size - 5]);
}

void TablesDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, uint2 a[gradient.size], uint8 b[gradient.size], int32 c[gradient.size],
            uint8 odd[half.size], int32 h, float f);
    require(n == fine.size && h == half[3]);
    gradient = map(a, b, c, [&](uint2 k, uint8 l, int m) -> float { return few[k] + steep[l] + fine[m] + f; });
}
"""


@cache
def _searching(table: str) -> Interpreter:
    text = f"""
        {table}
        void XEncode(float* gradient, uint8* compressed) {{
            int found = nearest(t, gradient[0] * 1e30 * 1e-30);
            compressed = concat(found);
        }}
    """
    return Interpreter(compile_text(text, complete=False))


FORMS = [
    "table float t[4] = {-1, 0, 2, 3};",
    "table float t[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};",
    "table float t[12] = {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};",
    "table float t[12] = [&](int i) -> float { return 1000000 + i * 0.0625; };",
]


@pytest.mark.parametrize("table", FORMS)
@settings(deadline=None)
@given(x=st.floats(-12, 12, width=32))
def test_nearest_is_the_number_of_middles_below(table: str, x: float) -> None:
    text = f"{table} void XEncode(float* gradient, uint8* compressed) {{ compressed = concat(t); }}"
    values = np.frombuffer(Interpreter(compile_text(text, complete=False)).encode(floats(0)), "<f4").astype(np.float64)
    middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    with np.errstate(all="ignore"):
        given = np.float32(np.float32(x) * np.float32(1e30)) * np.float32(1e-30)
    assert np.frombuffer(_searching(table).encode(floats(x)), "<i4")[0] == (middles < given).sum()


@pytest.mark.parametrize("table", FORMS)
def test_nearest_of_no_number_and_of_infinity(table: str) -> None:
    text = f"""
        {table}
        void XEncode(float* gradient, uint8* compressed) {{
            float zero = gradient[0] - gradient[0];
            float none = zero / zero;
            compressed = concat(nearest(t, none), nearest(t, -none), nearest(t, 1 / zero), nearest(t, -1 / zero));
        }}
    """
    message = Interpreter(compile_text(text, complete=False)).encode(floats(1))
    found = np.frombuffer(message, "<i4").tolist()
    assert found == [0, 0, 3 if "t[4]" in table else 11, 0]


def test_tables_are_vectors_and_all_functions_see_them() -> None:
    text = """
        float twice(int i) { return 2 * t[i]; }
        table float t[3] = {1, 2, 4};
        void XEncode(float* gradient, uint8* compressed) {
            float* both = map(range(5), [&](int i) -> float { return twice(i - 1); });
            compressed = concat(t, both, t.size);
        }
    """
    message = Interpreter(compile_text(text, complete=False)).encode(floats(1))
    assert message == floats(1, 2, 4, 0, 2, 4, 8, 0).tobytes() + np.int32(3).tobytes()


@pytest.mark.slow
def test_all_targets_do_the_same(tmp_path: Path) -> None:
    same_on_all_targets(PROGRAM, tmp_path)
