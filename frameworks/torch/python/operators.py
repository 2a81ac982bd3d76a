# SPDX-License-Identifier: Apache-2.0
"""The C++ operators behind the adapter: the checks of their tensors, and their errors as typed exceptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.complex_values import REAL_TYPES
from hipress.errors import HipressError, InvalidArgument, TransportError, Unsupported
from hipress.torch.reals import is_lazy

#: In the text of a complex tensor's memory order.
OF_COMPLEX = " of complex numbers"
#: Element types that can be synchronised, with the core's names for them.
DTYPE_NAMES = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
    )
}

_core = load_core()  # libhipress, which the operators link to, is in the process from here on
_LIBRARY = Path(__file__).with_name("libhipress_torch.so")
try:
    torch.ops.load_library(str(_LIBRARY))
except OSError as error:
    raise TransportError(
        f"HiPress' operators for PyTorch cannot be loaded: {error}. They are built when torch is installed before "
        "HiPress: run `pip install --no-build-isolation .` in its source; `hipress doctor` shows what is missing."
    ) from error


def check_is_tensor(given: object, operation: str, name: str | None = None) -> None:
    """Raises InvalidArgument if the argument is not a torch.Tensor, for example a NumPy array."""
    if not isinstance(given, torch.Tensor):
        kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        remedy = "torch.from_numpy()" if kind == "numpy.ndarray" else "torch.as_tensor()"
        called = "" if name is None else f" '{name}'"
        raise InvalidArgument(f"{operation}{called} takes a torch.Tensor, not a {kind}: call {remedy} first")


def check_tensor(tensor: torch.Tensor, name: str) -> None:
    """Raises Unsupported or InvalidArgument for a tensor that HiPress cannot synchronise; the text says what to do."""
    if tensor.layout != torch.strided:
        raise InvalidArgument(
            f"tensor '{name}' is sparse ({tensor.layout}); call .to_dense() first, or sparse_allreduce_async(); "
            "DistributedOptimizer takes sparse gradients as they are, or as dense ones with sparse_as_dense=True"
        )
    if tensor.dtype.to_real() not in DTYPE_NAMES:
        known = ", ".join([*DTYPE_NAMES.values(), *REAL_TYPES])
        raise Unsupported(f"tensor '{name}' has elements of type {tensor.dtype}; HiPress synchronises {known}")
    if tensor.device.type not in ("cpu", "cuda"):
        raise Unsupported(
            f"tensor '{name}' is on {tensor.device}; HiPress synchronises tensors on the CPU and on NVIDIA GPUs: "
            "call .cpu() first"
        )
    if is_lazy(tensor):
        raise InvalidArgument(
            f"tensor '{name}' is a view that torch conjugates or negates lazily, and its memory has other values: call "
            ".resolve_conj().resolve_neg() first"
        )
    if not is_dense(tensor):
        raise InvalidArgument(
            f"tensor '{name}' is not contiguous (shape {tuple(tensor.shape)}, strides {tensor.stride()}); "
            "call .contiguous() first"
        )


def device_of(tensor: torch.Tensor, name: str) -> Any:
    """The engine's device that holds the tensor; None: the tensor is in host memory. Raises Unsupported; its text names
    the missing part.
    """
    if tensor.device.type == "cpu":
        return None
    try:
        return runtime.current().gpu(tensor.get_device())
    except Unsupported as error:
        raise Unsupported(f"tensor '{name}' is on a GPU, but {error}. Or call .cpu() first") from None


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie in memory without gaps, row-major or channels-last."""
    return (
        tensor.is_contiguous()
        or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
        or (tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d))
    )


def shape_text(tensor: torch.Tensor) -> str:
    """The shape and the memory order, which ranks compare because they combine values in memory order."""
    return str(list(core_shape(tensor))) + memory_order(tensor)


def memory_order(tensor: torch.Tensor) -> str:
    """What lies in memory, as text: empty for real numbers in row-major order."""
    return (OF_COMPLEX if tensor.is_complex() else "") + ("" if tensor.is_contiguous() else " channels last")


def core_type(tensor: torch.Tensor) -> str:
    """The core's name for the element type; of a complex tensor for that of its real numbers."""
    return DTYPE_NAMES[tensor.dtype.to_real()]


def core_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape; of a complex tensor that of its real numbers."""
    return (*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape)


def core_count(tensor: torch.Tensor) -> int:
    """Number of elements; of a complex tensor of its real numbers."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def stream_of(tensor: torch.Tensor) -> int:
    """The CUDA stream on which torch computes the tensor; synchronisation waits for its current work. 0: no stream."""
    return int(torch.cuda.current_stream(tensor.device).cuda_stream) if tensor.is_cuda else 0


#: The operators start synchronising a tensor, as as_reals() gives it, and return the operation's handle. They return -1
#: if they refuse the tensor; the caller then calls raise_refusal(). Their arguments after the tensors are the handle on
#: which the ranks agreed, the caller's number of updates, and stream_of().
submit_in_place = torch.ops.hipress.submit_.default
submit = torch.ops.hipress.submit.default
submit_absent = torch.ops.hipress.submit_absent.default


def raise_refusal(tensor: torch.Tensor, name: str) -> NoReturn:
    """Raises the error for which an operator has refused the tensor."""
    check_tensor(tensor, name)
    _core.raise_kept_error()
    raise HipressError("an operator failed, and PyTorch has no message of it: look for one above in the log")
