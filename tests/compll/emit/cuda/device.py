# SPDX-License-Identifier: Apache-2.0
"""Tells whether there is a GPU, and gives access to its memory and kernels through the driver, or through a stand-in
for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipress.compll.build.kernels import compile_kernels
from hipress.compll.build.nvrtc import find_nvrtc
from hipress.errors import Unsupported
from tests.compiled import compiled
from tests.compll.emit.cuda.build import ROOT
from tests.compll.emit.cuda.table import Array, Memory

DRIVER = "libcuda.so.1"
_MAJOR, _MINOR = 75, 76
_SMALL = 1 << 20


def missing() -> str | None:
    """The reason why codecs cannot run on a GPU here; None if they can."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return "there is no CUDA driver (libcuda.so.1)"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the CUDA driver finds no GPU"
    try:
        find_nvrtc()
    except Unsupported as error:
        return str(error)
    return None


def require_gpu(reason: str | None) -> None:
    """Skips the test if codecs cannot run on a GPU; fails it if HIPRESS_REQUIRE_GPU is set."""
    if reason is None:
        return
    if os.environ.get("HIPRESS_REQUIRE_GPU"):
        pytest.fail(f"this cannot run on a GPU here: {reason}")
    pytest.skip(reason)


def _launcher_library() -> ctypes.CDLL:
    sources = [Path(__file__).with_name("launcher.cc")]
    sources += [
        ROOT / "core" / "device" / "cuda" / name for name in ("kernel_batch.cc", "kernels.cc", "gpu.cc", "driver.cc")
    ]
    flags = ("-std=c++20", "-O1", "-fPIC", "-shared", f"-I{ROOT}")
    library = compiled("launcher.so", [os.environ.get("CXX", "c++"), *flags, *map(str, sources)])
    functions = ctypes.CDLL(str(library))
    functions.hipress_test_launcher.restype = ctypes.c_void_p
    return functions


class Runtime:
    """The driver's functions on the first GPU; a failure raises RuntimeError."""

    def __init__(self, driver: str = DRIVER, compiler: Callable[[str, str, int, int], bytes] = compile_kernels) -> None:
        self._driver, self._compiler, self._name = ctypes.CDLL(driver), compiler, driver
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("Init", 0)
        self("DeviceGet", ctypes.byref(device), 0)
        self._capability = (self._attribute(device, _MAJOR), self._attribute(device, _MINOR))
        self("DevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("CtxPushCurrent_v2", context)
        self._library = _launcher_library()
        self._launchers: dict[str, ctypes.c_void_p] = {}
        #: Memory that no block uses, by size.
        self.free: dict[int, list[ctypes.c_void_p]] = {}

    def __call__(self, function: str, *arguments: Any) -> None:
        error = getattr(self._driver, f"cu{function}")(*arguments)
        if error:
            name = ctypes.c_char_p()
            self._driver.cuGetErrorName(error, ctypes.byref(name))
            raise RuntimeError(f"cu{function}: {(name.value or b'?').decode()}")

    def name(self) -> str:
        """The GPU's name."""
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        self("DeviceGet", ctypes.byref(device), 0)
        self("DeviceGetName", name, len(name), device)
        return name.value.decode()

    def copy(self, to: int | None, source: int | None, size: int) -> None:
        """Copies between any two addresses, and waits for all work that was started before."""
        self.start_copy(to, source, size)
        self("StreamSynchronize", None)
        for launcher in self._launchers.values():
            if error := self._library.hipress_test_launch_status(launcher):
                raise RuntimeError(f"a kernel could not be started: error {error} of the driver")

    def start_copy(self, to: int | None, source: int | None, size: int) -> None:
        if size:
            self("MemcpyAsync", ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), None)

    def launcher(self, kernels: str) -> ctypes.c_void_p:
        """An object that starts the kernels of a source text; it is the stream argument of a codec's functions."""
        if kernels not in self._launchers:
            image = self._compiler("tests", kernels, *self._capability)
            launcher = self._library.hipress_test_launcher(self._name.encode(), image, ctypes.c_size_t(len(image)))
            self._launchers[kernels] = ctypes.c_void_p(launcher)
        return self._launchers[kernels]

    def _attribute(self, device: ctypes.c_int, number: int) -> int:
        value = ctypes.c_int()
        self("DeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value


class _Block:
    """Memory of the GPU. The garbage collector keeps small memory for the next block of the same size: to allocate it
    takes longer than to run a test's kernels."""

    def __init__(self, runtime: Runtime, size: int) -> None:
        self.runtime, self.size, self.address = runtime, size, ctypes.c_void_p()
        kept = runtime.free.get(size)
        if kept:
            self.address = kept.pop()
        else:
            runtime("MemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(1, size)))

    def __del__(self) -> None:
        if self.size <= _SMALL:
            self.runtime.free.setdefault(self.size, []).append(self.address)
        else:
            self.runtime("MemFree_v2", self.address)


class DeviceMemory(Memory):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def put(self, values: Array) -> _Block:
        block = _Block(self._runtime, values.nbytes)
        source = np.ascontiguousarray(values)
        self._runtime.copy(block.address.value, source.ctypes.data, block.size)
        return block

    def room(self, size: int) -> _Block:
        return self.put(np.full(size, 0xA5, np.uint8))

    def address(self, kept: _Block) -> int:
        return kept.address.value or 0

    def launcher(self, kernels: str) -> Any:
        return self._runtime.launcher(kernels)

    def get(self, kept: _Block, dtype: Any) -> Array:
        values = np.empty(kept.size, np.uint8)
        self._runtime.copy(values.ctypes.data, kept.address.value, kept.size)
        result: Array = values.view(dtype)
        return result
