# SPDX-License-Identifier: Apache-2.0
"""Tensors over memory that the core owns, on the host and on GPUs."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Protocol

import torch


class Memory(Protocol):
    """The memory of one device, for one call of the core."""

    device: torch.device
    #: Whether values may be read at once: a GPU's would make the host wait.
    is_host: bool

    def tensor(self, address: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """The elements at an address, which the tensor shares."""
        ...

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Within it torch computes on the device, in the order of the core's work."""
        ...


class HostMemory:
    """The processor's memory."""

    device = torch.device("cpu")
    is_host = True

    def tensor(self, address: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """See Memory."""
        if count == 0:
            return torch.empty(0, dtype=dtype)
        return torch.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype=dtype)

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """See Memory."""
        return contextlib.nullcontext()


class GpuMemory:
    """The memory of a GPU, and the stream on which the core works."""

    is_host = False

    def __init__(self, index: int, stream: int) -> None:
        """`stream`: CUDA's handle; 0: the default stream."""
        self.device = torch.device("cuda", index)
        self._stream = stream

    def tensor(self, address: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """See Memory."""
        if count == 0:
            return torch.empty(0, dtype=dtype, device=self.device)
        there = _Bytes(address, count * dtype.itemsize)
        return torch.as_tensor(there, device=self.device).view(dtype)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """See Memory."""
        stream: Any = torch.cuda.default_stream(self.device)
        if self._stream:
            stream = torch.cuda.ExternalStream(self._stream, device=self.device)
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield


class _Bytes:
    """Memory of a GPU as numba's CUDA array interface describes it."""

    def __init__(self, address: int, count: int) -> None:
        # Without `stream`, torch takes no further measure: the caller has entered the right one.
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": (count,),
            "strides": None,
            "typestr": "|u1",
            "version": 3,
        }


def gpu_memory(index: int, stream: int) -> Memory:
    """The memory of a GPU for work on one of its streams."""
    return GpuMemory(index, stream)
