# SPDX-License-Identifier: Apache-2.0
"""Emitted CUDA sources, and shared libraries of them: for a GPU by nvcc, or for a processor by the C++ compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hipress.compll import ir
from hipress.compll.emit_cpu_codec import Origin
from hipress.compll.emit_cuda_codec import emit_cuda_codec

ROOT = Path(__file__).parents[3]
NVCC = os.environ.get("NVCC") or shutil.which("nvcc")
#: The same bits as everywhere need every operation rounded by itself. Constant functions are shared with processors.
NVCC_FLAGS = ("-std=c++20", "-O3", "-fmad=false", "--expt-relaxed-constexpr", f"-I{ROOT}")


def emit(program: ir.Program, directory: Path) -> Path:
    """Its source."""
    file = directory / f"{program.name}.cu"
    file.write_text(emit_cuda_codec(program, Origin(f"{program.name}.cll", program.name)))
    return file


def host_library(program: ir.Program, directory: Path) -> Path:
    """A library whose kernels run on the processor."""
    source, library = emit(program, directory), directory / f"lib{program.name}_host.so"
    compiler = os.environ.get("CXX", "c++")
    flags = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared", f"-I{ROOT}")
    subprocess.run([compiler, *flags, "-x", "c++", str(source), "-o", str(library)], check=True)
    return library


def device_library(programs: Sequence[ir.Program], directory: Path) -> Path:
    """A library for the GPU of this machine, with the runtime's functions for tests and benchmarks."""
    assert NVCC is not None
    library = directory / "libcodecs_cuda.so"
    sources = [*(emit(program, directory) for program in programs), ROOT / "core" / "ops" / "cuda" / "device_calls.cu"]
    options = ("-arch=native", "-t", "0", "-shared", "-Xcompiler", "-fPIC")
    subprocess.run([NVCC, *NVCC_FLAGS, *options, *map(str, sources), "-o", str(library)], check=True)
    return library
