# SPDX-License-Identifier: Apache-2.0
"""Which operations combine complex numbers."""

from __future__ import annotations

import pytest

from hipress.adapter import complex_values
from hipress.adapter.reduce_ops import Average, Max, Min, Product, ReduceOp, Sum
from hipress.errors import Unsupported


@pytest.mark.parametrize("op", [Min, Max, Product])
def test_complex_numbers_have_no_order_and_their_parts_no_product(op: ReduceOp) -> None:
    for dtype in complex_values.REAL_TYPES:
        with pytest.raises(Unsupported, match=f"op={op!r} of tensor 'a' with elements of type {dtype}: .* Average"):
            complex_values.check_combines("a", dtype, op)
    complex_values.check_combines("a", "float32", op)


def test_complex_numbers_are_added_and_averaged() -> None:
    for dtype in complex_values.REAL_TYPES:
        complex_values.check_combines("a", dtype, Sum)
        complex_values.check_combines("a", dtype, Average)
