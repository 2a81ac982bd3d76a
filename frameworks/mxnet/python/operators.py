# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: the checks of their arrays, and their errors as typed exceptions."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

from hipress._library import load_core
from hipress.adapter.synchronizer import TensorDescription
from hipress.errors import HipressError, InvalidArgument, TransportError, Unsupported
from hipress.mxnet import error_types

_DTYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64")

_core = load_core()  # libhipress, which the operators link to, is in the process from here on
_LIBRARY = Path(__file__).with_name("libhipress_mxnet.so")
try:
    _library = ctypes.CDLL(str(_LIBRARY))
except OSError as error:
    raise TransportError(
        f"HiPress' operators for MXNet cannot be loaded: {error}. They are built where CMake finds MXNet's headers "
        "(HIPRESS_MXNET_ROOT); `hipress doctor` shows the state of this installation."
    ) from error
_library.hipress_mxnet_skipped.restype = ctypes.c_int64
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


def _handles(arrays: Sequence[mx.nd.NDArray | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*[None if array is None else array.handle.value for array in arrays])


def synchronize(
    inputs: Sequence[mx.nd.NDArray | None],
    outputs: Sequence[mx.nd.NDArray],
    tensors: Sequence[int],
    *,
    together: bool = False,
    number: int = 0,
    updates: int = -1,
) -> None:
    """Pushes the synchronisation of arrays to MXNet's engine, which starts it as soon as they are ready; returns at
    once.

    Arguments:
        inputs: the values of this rank; None: this rank is absent. An input may be its own output (in place).
        outputs: the arrays that receive the results. MXNet lets no other operation use them before.
        tensors: the handles of the tensors on which the ranks have agreed.
        together: True: no operation may use an output before all have results, and if one fails, all fail.
        number: the number under which skipped() counts the arrays that MXNet does not synchronise; 0: not counted.
        updates: number of updates of the parameters on this rank; the operation fails with Mismatch if another rank has
            another number. Below 0: not compared.

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
        ctypes.c_int64(updates),
    )
    if result != 0:
        _core.raise_kept_error()
        raise HipressError("an operator failed, and MXNet has no message of it: look for one above in the log")


def skipped(number: int) -> int:
    """Number of arrays that MXNet did not synchronise because the operation that computes them failed."""
    return int(_library.hipress_mxnet_skipped(ctypes.c_int64(number)))


def last_error() -> str:
    """The text of the last error that MXNet has raised in this thread, without its stack trace; empty: none."""
    text = _LIB.MXGetLastError()
    return "" if not text else text.decode(errors="replace").split("\nStack trace:")[0].strip()


def order_values(array: mx.nd.NDArray) -> None:
    """Waits for the array, and puts its values into row-major order: inference leaves weights in oneDNN's order.

    It also waits for an inference that still reads the array, because that one pushes the reordering operation.
    """
    check_call(_LIB.MXNDArrayWaitToWrite(array.handle))
    array.wait_to_read()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(ctypes.c_void_p())))
