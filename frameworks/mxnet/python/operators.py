# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: the checks of their arrays, and their errors as typed exceptions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from hipress._library import load_core
from hipress.adapter.lists.description import TensorDescription
from hipress.errors import HipressError, InvalidArgument, TransportError, Unsupported
from hipress.mxnet import error_types

_DTYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")

#: Beginnings of lines of MXNet's errors that say in which line of MXNet they were raised.
_TRACE = ("MXNetError: Traceback", "Traceback", "  File")

_core = load_core()  # libhipress, which the operators link to, is in the process from here on
_LIBRARY = Path(__file__).with_name("libhipress_mxnet.so")
try:
    _library = ctypes.CDLL(str(_LIBRARY))
except OSError as error:
    raise TransportError(
        f"HiPress' operators for MXNet cannot be loaded: {error}. They are built where CMake finds MXNet's headers "
        "(HIPRESS_MXNET_ROOT); `hipress doctor` shows the state of this installation."
    ) from error
_library.hipress_mxnet_forget_list.restype = None
_LIB.MXGetLastError.restype = ctypes.c_char_p
error_types.register()


def describe(name: str, shape: Sequence[int], dtype: object, *, has_gradient: bool = True) -> TensorDescription:
    """The description of an array that ranks compare. Raises Unsupported for an unknown element type."""
    type_name = str(np.dtype(dtype))  # type: ignore[call-overload]
    if type_name not in _DTYPES:
        raise Unsupported(
            f"tensor '{name}' has elements of type {type_name}; HiPress synchronises MXNet's {', '.join(_DTYPES)}"
        )
    count = int(np.prod(shape, dtype=np.int64))
    return TensorDescription(name, type_name, count, str(list(shape)), has_gradient=has_gradient)


def check_array(array: mx.nd.NDArray, name: str) -> None:
    """Raises Unsupported or InvalidArgument for an array that HiPress cannot synchronise; the text says what to do."""
    if not isinstance(array, mx.nd.NDArray):
        raise InvalidArgument(f"'{name}' is a {type(array).__name__}, not an NDArray of MXNet")
    if array.stype != "default":
        raise InvalidArgument(
            f"tensor '{name}' is sparse ({array.stype}); call .tostype('default') first, or give DistributedTrainer "
            "sparse_as_dense=True"
        )
    if array.context.device_type not in ("cpu", "cpu_pinned", "cpu_shared"):
        raise Unsupported(
            f"tensor '{name}' is on {array.context}; HiPress synchronises MXNet's arrays on the CPU: call "
            ".as_in_context(mx.cpu()) first"
        )


def of_kind(array: mx.nd.NDArray, like: mx.nd.NDArray) -> mx.nd.NDArray:
    """The array as one of mx.np if `like` is one, or else of mx.nd; with the same memory."""
    return array.as_np_ndarray() if isinstance(like, mx.np.ndarray) else array


def _handles(arrays: Sequence[mx.nd.NDArray | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*[None if array is None else array.handle.value for array in arrays])


def synchronize(
    inputs: Sequence[mx.nd.NDArray | None],
    outputs: Sequence[mx.nd.NDArray],
    tensors: Sequence[int],
    *,
    together: bool = False,
    number: int = 0,
    step: int = 0,
    updates: int = -1,
    factors: int = 0,
    ends_step: bool = True,
) -> None:
    """Pushes the synchronisation of arrays to MXNet's engine, which starts it as soon as they are ready; returns at
    once.

    Arguments:
        inputs: the values of this rank; None: this rank is absent. An input may be its own output (in place).
        outputs: the arrays that receive the results. MXNet lets no other operation use them before.
        tensors: the handles of the tensors on which the ranks have agreed.
        together: True: no operation may use an output before all have results, and if one fails, all fail.
        number: the number under which skipped() knows the arrays that MXNet does not synchronise; 0: none.
        step: number of the step among those with this `number`.
        updates: number of updates of the parameters on this rank; below 0: not compared.
        factors: a digest of the factors of these updates. The operation fails with Mismatch if another rank has another
            number or digest.
        ends_step: the arrays are all of a step, so the next call begins another one.

    Raises NotInitialized. The call that waits for an output raises an error of the synchronisation.
    """
    count = len(outputs)
    result = _library.hipress_mxnet_synchronize(
        _handles(inputs),
        _handles(outputs),
        (ctypes.c_uint32 * count)(*tensors),
        count,
        int(together),
        ctypes.c_int64(number),
        ctypes.c_int64(step),
        ctypes.c_int64(updates),
        ctypes.c_uint32(factors),
        int(ends_step),
    )
    _check(result)


def skipped(number: int) -> tuple[int, int]:
    """Number of arrays that MXNet did not synchronise because an operation of this rank that computes them failed, in
    the first step with such arrays; and the number of this step."""
    count, step = ctypes.c_int64(), ctypes.c_int64()
    _check(_library.hipress_mxnet_skipped(ctypes.c_int64(number), ctypes.byref(count), ctypes.byref(step)))
    return count.value, step.value


def forget_list(number: int, tensors: Sequence[int]) -> None:
    """Frees the number, and what the engine keeps of these tensors when MXNet has ended their last operation."""
    handles = (ctypes.c_uint32 * len(tensors))(*tensors)
    _library.hipress_mxnet_forget_list(ctypes.c_int64(number), handles, ctypes.c_size_t(len(tensors)))


def _check(result: int) -> None:
    if result != 0:
        _core.raise_kept_error()
        raise HipressError("an operator failed, and MXNet has no message of it: look for one above in the log")


def reason_of(arrays: Iterable[mx.nd.NDArray]) -> str:
    """MXNet's text of the error for which it did not compute one of the arrays, or else of its last error."""
    for array in arrays:
        try:
            array.wait_to_read()
        except mx.MXNetError as error:
            return _without_traces(f"MXNetError: {error}")
    return last_error() or "an error in an operation"


def last_error() -> str:
    """The text of the last error that MXNet has raised in this thread, without its stack trace; empty: none."""
    text = _LIB.MXGetLastError()
    return "" if not text else _without_traces(text.decode(errors="replace"))


def _without_traces(text: str) -> str:
    """The text of an error of MXNet without its lines on where MXNet was: only the last ones say what happened."""
    lines = [line for line in text.split("\nStack trace:")[0].splitlines() if not line.startswith(_TRACE)]
    return " ".join(line.strip() for line in lines if line.strip())


def order_values(array: mx.nd.NDArray) -> None:
    """Waits for the array, and puts its values into row-major order: inference leaves weights in oneDNN's order.

    It also waits for an inference that still reads the array, because that one pushes the reordering operation.
    """
    check_call(_LIB.MXNDArrayWaitToWrite(array.handle))
    array.wait_to_read()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(ctypes.c_void_p())))
