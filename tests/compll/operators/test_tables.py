# SPDX-License-Identifier: Apache-2.0
"""Tables of constants, and the search for the nearest of their elements in each of its forms."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipress.compll import Interpreter, compile_text
from tests.compll.programs import floats


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
