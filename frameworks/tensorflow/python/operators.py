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

_Names = Sequence[str]
_Tensors = Sequence[Any]
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


def synchronize(
    values: Sequence[tf.Tensor], number: int, indices: Sequence[int], *, step_count: int
) -> list[tf.Tensor]:
    """The tensors at `indices` of the list `number`, combined over all ranks; of `step_count` in the same step."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_synchronize(
            list(values), list_number=number, indices=list(indices), step_count=step_count
        )
    return _independent(outputs)


def reduced(kind: str, names: _Names, tensors: _Tensors, factors: tuple[float, float], **options: Any) -> list[Any]:
    """An "allreduce" or "reducescatter" of each tensor, which ranks match by name. `factors`: before and after."""
    operator = _operators.hipress_allreduce if kind == "allreduce" else _operators.hipress_reducescatter
    with tf.device("CPU:0"), own_errors():
        outputs = operator(list(names), tf.constant(factors, tf.float64), list(tensors), **options)
    return _independent(outputs)


def broadcast(names: _Names, tensors: _Tensors, root_rank: int) -> list[Any]:
    """Each tensor as rank `root_rank` has it."""
    with tf.device("CPU:0"), own_errors():
        outputs = _operators.hipress_broadcast(list(names), list(tensors), root_rank=root_rank)
    return _independent(outputs)


def allgather(names: _Names, tensors: _Tensors) -> tuple[list[Any], list[Any]]:
    """The rows of all ranks, and for each tensor how many came from each rank."""
    with tf.device("CPU:0"), own_errors():
        gathered, rows = _operators.hipress_allgather(list(names), list(tensors), N=len(names))
    return _independent(gathered), rows


def alltoall(names: _Names, splits: Any, tensors: _Tensors) -> tuple[list[Any], list[Any]]:
    """The rows that all ranks have for this one, and for each tensor how many came from each rank."""
    with tf.device("CPU:0"), own_errors():
        received, rows = _operators.hipress_alltoall(list(names), splits, list(tensors), N=len(names))
    return _independent(received), rows


def encode(gradient: Any, states: _Tensors, step: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The message, and the states as they are after it."""
    with tf.device("CPU:0"), own_errors():
        message, after = _operators.hipress_encode(gradient, list(states), step, **options)
    return message, after


def decode(payload: Any, count: Any, codec: str, options: str) -> Any:
    with tf.device("CPU:0"), own_errors():
        return _operators.hipress_decode(payload, count, codec=codec, options=options)


def decode_accumulate(payload: Any, values: Any, codec: str, options: str) -> Any:
    with tf.device("CPU:0"), own_errors():
        return _operators.hipress_decode_accumulate(payload, values, codec=codec, options=options)


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
