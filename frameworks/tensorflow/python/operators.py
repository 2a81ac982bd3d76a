# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: eagerly, in tf.function and in graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import Unsupported
from hipress.tensorflow.failures import own_errors
from hipress.tensorflow.library import load_operators

_operators, _lists = load_operators()
for _function in (_lists.hipress_define_tensor_list, _lists.hipress_hold_back):
    _function.restype = ctypes.c_bool

#: Element types that HiPress synchronises.
DTYPES = frozenset(
    {
        tf.float32,
        tf.float64,
        tf.float16,
        tf.bfloat16,
        tf.uint8,
        tf.int8,
        tf.int16,
        tf.int32,
        tf.int64,
        tf.bool,
    }
)


def check_dtype(dtype: tf.DType, name: str) -> None:
    """Raises Unsupported for element types that ranks cannot exchange."""
    if dtype not in DTYPES:
        known = ", ".join(sorted(known.name for known in DTYPES))
        raise Unsupported(f"tensor '{name}' has elements of type {dtype.name}; HiPress synchronises {known}")


def synchronize(values: Sequence[tf.Tensor], number: int, indices: Sequence[int]) -> list[tf.Tensor]:
    """The tensors at `indices` of the list `number`, combined over all ranks."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_synchronize(list(values), list_number=number, indices=list(indices))
    return _independent(outputs)


def allreduce(names: Sequence[str], tensors: Sequence[tf.Tensor], **options: Any) -> list[tf.Tensor]:
    """Each tensor combined over all ranks, which match them by name."""
    factors = (options.pop("prescale_factor"), options.pop("postscale_factor"))
    with tf.device("CPU:0"), own_errors():
        scales = tf.constant(factors, tf.float64)
        outputs = _operators.hipress_allreduce(list(names), scales, list(tensors), **options)
    return _independent(outputs)


def broadcast(names: Sequence[str], tensors: Sequence[tf.Tensor], root_rank: int) -> list[tf.Tensor]:
    """Each tensor as rank `root_rank` has it."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_broadcast(list(names), list(tensors), root_rank=root_rank)
    return _independent(outputs)


def define_list(number: int, handles: Sequence[int]) -> None:
    """The list `number` of this process has these handles from now on, also in graphs that exist."""
    values = (ctypes.c_uint32 * len(handles))(*handles)
    _checked(_lists.hipress_define_tensor_list(ctypes.c_int64(number), values, ctypes.c_size_t(len(handles))))


def forget_list(number: int) -> None:
    """No graph that uses the list `number` will run any more."""
    _lists.hipress_forget_tensor_list(ctypes.c_int64(number))


def hold_back(number: int, index: int, values: NDArray[np.float32]) -> None:
    """`values` join the next values of the tensor at `index` of the list `number`."""
    values = np.ascontiguousarray(values, np.float32)
    data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    size = ctypes.c_size_t(values.size)
    _checked(_lists.hipress_hold_back(ctypes.c_int64(number), ctypes.c_size_t(index), data, size))


def _checked(well: bool) -> None:
    if not well:
        load_core().raise_kept_error()


def _independent(outputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """In a tf.function: operators with side effects run one after the other, unless they say that they need not."""
    if not tf.executing_eagerly():
        manager = getattr(outputs[0].graph, "experimental_acd_manager", None)
        if manager is not None:
            manager.run_independently(outputs[0].op)
    return outputs
