# SPDX-License-Identifier: Apache-2.0
"""NVRTC, NVIDIA's compiler of CUDA as a library: it makes GPU code of kernels at run time, and needs no GPU itself.

PyTorch's CUDA builds bring it along; the packages nvidia-cuda-nvrtc (CUDA 13) and nvidia-cuda-nvrtc-cu12 have it alone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipress.errors import HipressError, Unsupported

#: Every operation is rounded by itself, as everywhere: all devices must compute the same bits. Functions without a mark
#: are shared with the processor, and run on the GPU.
OPTIONS = ("-std=c++20", "-fmad=false", "-default-device")

#: Versions of CUDA, the newest first, and where their package puts the library.
_PLACES = {13: "cu13/lib/libnvrtc.so.13", 12: "cuda_nvrtc/lib/libnvrtc.so.12"}


class KernelError(HipressError):
    """NVRTC has found an error; `log` is all that it says."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class Nvrtc:
    """`version` is (13, 0), for example; `architectures` are the compute capabilities that it knows, as 90 for 9.0."""

    library: ctypes.CDLL
    version: tuple[int, int]
    architectures: tuple[int, ...]

    def target(self, architecture: int) -> str:
        """The option's value for a GPU: its own code, or for a GPU newer than NVRTC code that the driver translates.

        Raises Unsupported if NVRTC has dropped so old a GPU.
        """
        if architecture in self.architectures:
            return f"sm_{architecture}"
        older = [known for known in self.architectures if known < architecture]
        if not older:
            known = ", ".join(map(str, self.architectures))
            raise Unsupported(
                f"NVRTC {self.version[0]}.{self.version[1]} has no code for GPUs of compute capability "
                f"{architecture / 10:.1f}, only for {known}; install an older nvidia-cuda-nvrtc"
            )
        return f"compute_{max(older)}"

    def compile(
        self, text: str, target: str, include: Sequence[Path], options: Sequence[str] = ()
    ) -> tuple[bytes, str]:
        """What the driver loads, and the compiler's log. Raises KernelError if the text does not compile."""
        program = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
        try:
            given = (
                f"--gpu-architecture={target}",
                *OPTIONS,
                *(f"--include-path={path}" for path in include),
                *options,
            )
            words = (ctypes.c_char_p * len(given))(*map(os.fsencode, given))
            failed = self.library.nvrtcCompileProgram(program, len(given), words)
            log = self._read("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
            if failed:
                raise KernelError(log or self._error(failed))
            return self._read("CUBIN" if target.startswith("sm_") else "PTX", program), log
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, what: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{what}Size", program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, content)
        return content.raw

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self.library, f"nvrtc{function}")(*arguments)
        if result:
            raise HipressError(f"nvrtc{function} failed: {self._error(result)}; reinstall nvidia-cuda-nvrtc")

    def _error(self, result: int) -> str:
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        text: bytes | None = self.library.nvrtcGetErrorString(result)
        return (text or b"unknown error").decode(errors="replace")


@functools.cache
def find_nvrtc() -> Nvrtc:
    """The newest NVRTC whose code the driver of this machine runs; without a driver, the newest.

    Raises Unsupported, which names the package to install, if there is none.
    """
    newest = _driver_version()
    for version in _PLACES:
        if newest is not None and version > newest:
            continue
        for place in _candidates(version):
            try:
                return _opened(ctypes.CDLL(str(place)))
            except OSError:
                continue
    package = "nvidia-cuda-nvrtc-cu12" if newest == 12 else "nvidia-cuda-nvrtc"
    raise Unsupported(
        "NVRTC, the compiler of kernels for GPUs, was not found" + (f" for CUDA {newest}" if newest else "") + "; "
        f"install it: pip install {package}"
    )


def _candidates(version: int) -> Iterator[str | Path]:
    """The package's library, then the one that the loader finds (a CUDA toolkit's)."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (path := Path(folder) / _PLACES[version]).is_file():
            yield path
    yield f"libnvrtc.so.{version}"


def _driver_version() -> int | None:
    """The version of CUDA that the driver supports; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    return version.value // 1000 if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def _opened(library: ctypes.CDLL) -> Nvrtc:
    major, minor, number = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    library.nvrtcGetNumSupportedArchs(ctypes.byref(number))
    known = (ctypes.c_int * number.value)()
    library.nvrtcGetSupportedArchs(known)
    return Nvrtc(library, (major.value, minor.value), tuple(sorted(known)))
