# SPDX-License-Identifier: Apache-2.0
"""libhipress_cuda for a processor: the device's own sources and all codecs, over a stand-in for the CUDA runtime."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
from pathlib import Path

from hipress import _core
from hipress.compll.emit_cuda_codec import emit_cuda_codecs
from tests.compll.cuda.build import ROOT, emit
from tests.compll.cuda.programs import program
from tests.compll.programs import BUILTIN

#: Stands for a driver: something that loads.
ANY_LIBRARY = ctypes.util.find_library("c") or "libc.so.6"
_RUNTIME = Path(__file__).with_name("host_runtime")
_FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Wno-restrict", "-Werror", "-ffp-contract=off", "-fPIC", "-shared")


def host_cuda_library(directory: Path) -> Path:
    """Two GPUs, for _core.cuda_device(library=...)."""
    codecs = directory / "builtin_codecs.cu"
    codecs.write_text(emit_cuda_codecs(["fp16", *BUILTIN]))
    device = sorted((ROOT / "core" / "device" / "cuda").glob("*.cu"))
    parts = [_RUNTIME / "runtime.cc", *device, codecs, *(emit(program(name), directory) for name in BUILTIN)]
    whole, library = directory / "whole.cc", directory / "libhipress_cuda.so"
    # One translation unit: most of the time goes to headers.
    whole.write_text("".join(f'#include "{part}"\n' for part in parts))
    core = Path(_core.__file__).with_name("libhipress.so")
    options = ("-DHIPRESS_HOST_STREAMS", f"-I{_RUNTIME}", f"-I{ROOT}", f"-Wl,-rpath,{core.parent}")
    command = [os.environ.get("CXX", "c++"), *_FLAGS, *options, str(whole), str(core), "-o", str(library)]
    subprocess.run(command, check=True)
    return library
