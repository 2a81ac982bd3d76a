# SPDX-License-Identifier: Apache-2.0
"""Emitted CUDA sources, and shared libraries of them: for a GPU by nvcc, or for a processor by the C++ compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from hipress.compll import ir
from hipress.compll.emit_cpu_codec import Origin
from hipress.compll.emit_cuda_codec import emit_cuda_codec
from tests.compll.programs import ROOT

NVCC = os.environ.get("NVCC") or shutil.which("nvcc")
#: The same bits as everywhere need every operation rounded by itself. Constant functions are shared with processors.
NVCC_FLAGS = ("-std=c++20", "-O3", "-fmad=false", "--expt-relaxed-constexpr", f"-I{ROOT}")


def emit(programs: list[ir.Program], directory: Path) -> list[Path]:
    """Their sources."""
    files = []
    for program in programs:
        files.append(directory / f"{program.name}.cu")
        files[-1].write_text(emit_cuda_codec(program, Origin(f"{program.name}.cll", program.name)))
    return files


def host_library(program: ir.Program, directory: Path) -> Path:
    """A library whose kernels run on the processor."""
    (source,) = emit([program], directory)
    library = directory / f"lib{program.name}.so"
    compiler = os.environ.get("CXX", "c++")
    flags = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared", f"-I{ROOT}")
    subprocess.run([compiler, *flags, "-x", "c++", str(source), "-o", str(library)], check=True)
    return library
