# SPDX-License-Identifier: Apache-2.0
"""nvJitLink, NVIDIA's linker as a library: it makes code of any GPU from PTX, as the driver does. It needs no GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from pathlib import Path

_PTX = 2  # NVJITLINK_INPUT_PTX
_LIBRARY = "cu13/lib/libnvJitLink.so.13"  # of the package nvidia-nvjitlink


def assembler_log(ptx: bytes, architecture: str) -> str:
    """The assembler's report for a compute capability such as "90": each kernel's registers and spilled bytes.

    Raises RuntimeError with the linker's log if the PTX is wrong.
    """
    library, handle = _library(), ctypes.c_void_p()
    options = (f"-arch=sm_{architecture}", "-verbose", "-Xptxas=-v")
    words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    if library.nvJitLinkCreate(ctypes.byref(handle), len(options), words):
        raise RuntimeError(f"nvJitLink refuses {' '.join(options)}")
    try:
        failed = library.nvJitLinkAddData(handle, _PTX, ptx, ctypes.c_size_t(len(ptx)), b"kernels.ptx")
        if failed or library.nvJitLinkComplete(handle):
            raise RuntimeError(_log(handle, "Error"))
        return _log(handle, "Info")
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))


def _log(handle: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    getattr(_library(), f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value + 1)
    getattr(_library(), f"nvJitLinkGet{kind}Log")(handle, content)
    return content.value.decode(errors="replace")


@functools.cache
def _library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (path := Path(folder) / _LIBRARY).is_file():
            return ctypes.CDLL(str(path))
    raise RuntimeError("nvJitLink was not found; install requirements/dev.txt")
