# SPDX-License-Identifier: Apache-2.0
"""The element kernels of core/device/cuda and the codec fp16, for a GPU or, from the same sources, for a processor."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.compll.cuda.build import NVCC, NVCC_FLAGS, ROOT
from tests.compll.cuda.table import CudaCodec, Memory, table_of

DEVICE = ROOT / "core" / "device" / "cuda"
SOURCES = [Path(__file__).with_name("shim.cc"), DEVICE / "elements.cu", DEVICE / "fp16.cu"]
NUMBERS = {
    "float32": 0,
    "float64": 1,
    "float16": 2,
    "bfloat16": 3,
    "uint8": 4,
    "int8": 5,
    "int32": 6,
    "int64": 7,
    "bool": 8,
    "int16": 9,
}


def host_library(directory: Path) -> Path:
    """The kernels, run on the processor."""
    library = directory / "libelements_host.so"
    flags = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-ffp-contract=off", "-fPIC", "-shared")
    command = [os.environ.get("CXX", "c++"), *flags, f"-I{ROOT}", "-x", "c++", *map(str, SOURCES), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def device_library(directory: Path) -> Path:
    """The kernels, for the GPU of this machine."""
    assert NVCC is not None
    library = directory / "libelements_cuda.so"
    sources = [*SOURCES, ROOT / "core" / "ops" / "cuda" / "device_calls.cu"]
    options = ("-arch=native", "-shared", "-Xcompiler", "-fPIC", "-x", "cu")
    subprocess.run([NVCC, *NVCC_FLAGS, *options, *map(str, sources), "-o", str(library)], check=True)
    return library


class Elements:
    """The functions of core/device/cuda/elements.h on copies of arrays; 16-bit floats are given as their bits."""

    def __init__(self, library: Path, memory: Memory) -> None:
        self._library, self._memory = ctypes.CDLL(str(library)), memory
        self._library.hipress_test_scratch.restype = ctypes.c_size_t

    def reduce(
        self, arrays: list[NDArray[Any]], dtype: str, factor: float = 1.0, in_place: int | None = None
    ) -> NDArray[Any]:
        """The sum, in memory of its own or in the place of one of the arrays."""
        memory, count = self._memory, arrays[0].size
        kept = [memory.put(array) for array in arrays]
        output = memory.room(arrays[0].nbytes) if in_place is None else kept[in_place]
        scratch = memory.room(self._library.hipress_test_scratch(ctypes.c_size_t(len(arrays)), ctypes.c_size_t(count)))
        self._library.hipress_test_reduce(
            NUMBERS[dtype],
            (ctypes.c_void_p * len(kept))(*map(memory.address, kept)),
            ctypes.c_size_t(len(kept)),
            ctypes.c_size_t(count),
            ctypes.c_double(factor),
            ctypes.c_void_p(memory.address(output)),
            ctypes.c_void_p(memory.address(scratch)),
        )
        return memory.get(output, arrays[0].dtype)

    def add(
        self, values: NDArray[Any], dtype: str, factor: float, to: NDArray[np.float32], *, accumulate: bool
    ) -> NDArray[np.float32]:
        memory = self._memory
        source, total = memory.put(values), memory.put(to)
        self._library.hipress_test_add(
            NUMBERS[dtype],
            ctypes.c_void_p(memory.address(source)),
            ctypes.c_float(factor),
            int(accumulate),
            ctypes.c_void_p(memory.address(total)),
            ctypes.c_size_t(to.size),
        )
        return memory.get(total, np.float32)

    def narrow(self, values: NDArray[np.float32], dtype: str, stored: Any) -> NDArray[Any]:
        memory = self._memory
        source, output = memory.put(values), memory.room(values.size * np.dtype(stored).itemsize)
        self._library.hipress_test_narrow(
            NUMBERS[dtype],
            ctypes.c_void_p(memory.address(source)),
            ctypes.c_void_p(memory.address(output)),
            ctypes.c_size_t(values.size),
        )
        return memory.get(output, stored)


class Fp16(CudaCodec):
    """It comes from no program."""

    def __init__(self, library: Path, memory: Memory) -> None:
        self.table, self.memory = table_of(library, "fp16"), memory
        self.params, self.states = (ctypes.c_double * 1)(), ()
