# SPDX-License-Identifier: Apache-2.0
"""Whether there is a GPU, and its memory."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compll.cuda.build import NVCC
from tests.compll.cuda.table import Array, Memory


def missing() -> str | None:
    """What keeps codecs from running on a GPU here; None if nothing does."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver (libcuda.so.1)"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the CUDA driver finds no GPU"
    return None if NVCC else "there is no nvcc, which compiles for the GPU"


def require_gpu(reason: str | None) -> None:
    """Unless nothing is missing: skips the test, or fails it where a GPU is wanted."""
    if reason is None:
        return
    if os.environ.get("HIPRESS_REQUIRE_GPU"):
        pytest.fail(f"this cannot run on a GPU here: {reason}")
    pytest.skip(reason)


class Runtime:
    """The functions of core/ops/cuda/device_calls.cu; a failure raises RuntimeError."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.hipress_cuda_error.restype = ctypes.c_char_p

    def __call__(self, function: str, *arguments: Any) -> None:
        error = getattr(self._library, f"hipress_cuda_{function}")(*arguments)
        if error:
            raise RuntimeError(f"{function}: {self._library.hipress_cuda_error(error).decode()}")


class _Block:
    """Memory of the GPU, until it is collected."""

    def __init__(self, runtime: Runtime, size: int) -> None:
        self.runtime, self.size, self.address = runtime, size, ctypes.c_void_p()
        runtime("allocate", ctypes.byref(self.address), ctypes.c_size_t(max(1, size)))

    def __del__(self) -> None:
        self.runtime("free", self.address)


class DeviceMemory(Memory):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def put(self, values: Array) -> _Block:
        block = _Block(self._runtime, values.nbytes)
        source = np.ascontiguousarray(values)
        self._runtime("copy", block.address, ctypes.c_void_p(source.ctypes.data), ctypes.c_size_t(block.size))
        return block

    def room(self, size: int) -> _Block:
        return self.put(np.full(size, 0xA5, np.uint8))

    def address(self, kept: _Block) -> int:
        return kept.address.value or 0

    def get(self, kept: _Block, dtype: Any) -> Array:
        values = np.empty(kept.size, np.uint8)
        self._runtime("copy", ctypes.c_void_p(values.ctypes.data), kept.address, ctypes.c_size_t(kept.size))
        result: Array = values.view(dtype)
        return result
