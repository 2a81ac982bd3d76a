# SPDX-License-Identifier: Apache-2.0
"""The kernels of core/device/cuda and of the codec fp16: on a GPU or, compiled from the same sources, on the
processor."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from tests.compiled import compiled
from tests.compll.emit.cuda.build import HOST_FLAGS, ROOT
from tests.compll.emit.cuda.table import COUNTERS, CudaCodec, Memory, table_of

SOURCES = [
    Path(__file__).with_name("shim.cc"),
    ROOT / "core" / "device" / "cuda" / "elements.cc",
    ROOT / "core" / "codec" / "builtin" / "fp16_table.cc",
]
KERNELS = dict(_core.element_kernels())
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


def host_library() -> Path:
    """The library with the kernels, which run on the processor."""
    compiler = os.environ.get("CXX", "c++")
    return compiled("elements_host.so", [compiler, *HOST_FLAGS, "-Wshadow", *map(str, SOURCES)])


def starting_library() -> Path:
    """The library with the functions that start the kernels; NVRTC compiles the kernels."""
    flags = ("-std=c++20", "-O1", "-fPIC", "-shared", f"-I{ROOT}")
    return compiled("elements_start.so", [os.environ.get("CXX", "c++"), *flags, *map(str, SOURCES)])


class Elements:
    """The functions of core/device/cuda/elements.h on copies of arrays; 16-bit floats are given as their bits."""

    def __init__(self, library: Path, memory: Memory) -> None:
        self._library, self._memory = ctypes.CDLL(str(library)), memory
        self._library.hipress_test_scratch.restype = ctypes.c_size_t

    def reduce(
        self,
        arrays: list[NDArray[Any]],
        dtype: str,
        factor: float = 1.0,
        in_place: int | None = None,
        *,
        op: str = "sum",
    ) -> NDArray[Any]:
        """The sum, minimum, maximum or product; the result is in its own memory, or replaces one of the arrays."""
        memory, count = self._memory, arrays[0].size
        integers = "int" in dtype
        kept = [memory.put(array) for array in arrays]
        output = memory.room(arrays[0].nbytes) if in_place is None else kept[in_place]
        scratch = memory.room(self._library.hipress_test_scratch(ctypes.c_size_t(len(arrays)), ctypes.c_size_t(count)))
        self._library.hipress_test_combine(
            ["sum", "min", "max", "product"].index(op),
            NUMBERS[dtype],
            (ctypes.c_void_p * len(kept))(*map(memory.address, kept)),
            ctypes.c_size_t(len(kept)),
            ctypes.c_size_t(count),
            ctypes.c_double(factor),
            ctypes.c_void_p(memory.address(output)),
            ctypes.c_void_p(memory.address(scratch)),
            memory.launcher(KERNELS[f"merge {op}_{dtype}" + ("_scaled" if integers and factor != 1 else "")]),
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
            memory.launcher(KERNELS[f"conversion of {dtype}"]),
        )
        return memory.get(total, np.float32)

    def is_flagged(self, values: NDArray[Any], dtype: str) -> bool:
        """Whether a value is found that is not finite."""
        memory = self._memory
        source, flag = memory.put(values), memory.put(np.zeros(1, np.uint32))
        self._library.hipress_test_flag(
            NUMBERS[dtype],
            ctypes.c_void_p(memory.address(source)),
            ctypes.c_size_t(values.size),
            ctypes.c_void_p(memory.address(flag)),
            memory.launcher(KERNELS[f"conversion of {dtype}"]),
        )
        return bool(memory.get(flag, np.uint32)[0])

    def narrow(self, values: NDArray[np.float32], dtype: str, stored: Any) -> NDArray[Any]:
        memory = self._memory
        source, output = memory.put(values), memory.room(values.size * np.dtype(stored).itemsize)
        self._library.hipress_test_narrow(
            NUMBERS[dtype],
            ctypes.c_void_p(memory.address(source)),
            ctypes.c_void_p(memory.address(output)),
            ctypes.c_size_t(values.size),
            memory.launcher(KERNELS[f"conversion of {dtype}"]),
        )
        return memory.get(output, stored)


class Fp16(CudaCodec):
    """The codec fp16 on a GPU, which has no program in CompLL."""

    def __init__(self, library: Path, memory: Memory) -> None:
        self.table, self.memory = table_of(library, "fp16"), memory
        self.launcher = memory.launcher(self.table.kernels.decode())
        self.params, self.states = (ctypes.c_double * 1)(), ()
        self._counters = memory.put(np.zeros(COUNTERS, np.uint8))
