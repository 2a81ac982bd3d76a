# SPDX-License-Identifier: Apache-2.0
"""Complex tensors travel as tensors of twice as many real numbers: each element is its real part, then its imaginary
part. NumPy, PyTorch and TensorFlow have complex numbers in memory so.
"""

from __future__ import annotations

from hipress.adapter.reduce_ops import Average, ReduceOp, Sum
from hipress.errors import Unsupported

#: The type of the real numbers, by the complex type's name.
REAL_TYPES = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}


def check_combines(name: str, dtype: str, op: ReduceOp) -> None:
    """Raises Unsupported for complex numbers unless `op` combines their parts each for itself.

    Arguments:
        name: of the tensor.
        dtype: its type's name, such as "complex64".
    """
    if dtype in REAL_TYPES and op not in (Average, Sum):
        raise Unsupported(
            f"op={op!r} of tensor '{name}' with elements of type {dtype}: HiPress combines complex numbers with "
            "Average and Sum only; combine real tensors, such as their absolute values"
        )
