# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: what arrays they take, and errors with their types."""

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
    """An array as ranks compare it. Raises Unsupported."""
    type_name = str(np.dtype(dtype))  # type: ignore[call-overload]
    if type_name not in _DTYPES:
        raise Unsupported(
            f"tensor '{name}' has elements of type {type_name}; HiPress synchronises MXNet's {', '.join(_DTYPES)}"
        )
    count = int(np.prod(shape, dtype=np.int64))
    return TensorDescription(name, type_name, count, str(list(shape)), has_gradient=has_gradient)


def check_array(array: mx.nd.NDArray, name: str) -> None:
    """Raises Unsupported or InvalidArgument, saying what to do, for an array that cannot be synchronised."""
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
    """Has MXNet's engine synchronise arrays as soon as they are ready; returns at once.

    Arguments:
        inputs: the values of this rank; None: it has none in this step. Where one is its output, in place.
        outputs: receive the result. MXNet lets nothing else use them before.
        tensors: the handles under which ranks have agreed on them.
        together: nothing may use any output before all are there, and if one fails, all do.
        number: under which skipped() counts the arrays that MXNet does not begin with; 0: they are not counted.
        updates: how often this rank has updated the parameters, below 0: it does not count. A rank with another number
            makes it a Mismatch.

    The call that waits for the output raises a later error. Raises NotInitialized.
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
        raise HipressError("an operator failed without saying why")


def skipped(number: int) -> int:
    """How many arrays MXNet did not synchronise, because the operation that computes them failed."""
    return int(_library.hipress_mxnet_skipped(ctypes.c_int64(number)))


def last_error() -> str:
    """What MXNet has raised last in this thread, without its own stack; empty: nothing."""
    text = _LIB.MXGetLastError()
    return "" if not text else text.decode(errors="replace").split("\nStack trace:")[0].strip()


def order_values(array: mx.nd.NDArray) -> None:
    """Waits for the array, and has its values in their own order: inference leaves weights in oneDNN's.

    An inference that still reads them pushes the operation that reorders them, so it is waited for, too.
    """
    check_call(_LIB.MXNDArrayWaitToWrite(array.handle))
    array.wait_to_read()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(ctypes.c_void_p())))
