# SPDX-License-Identifier: Apache-2.0
"""Emitted CUDA sources, and shared libraries of them: for a GPU by nvcc, or for a processor by the C++ compiler."""

from __future__ import annotations

import os
import re
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


#: Generations of GPUs that libhipress_cuda is built for.
ARCHITECTURES = ("80", "90", "100")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def kernels_without_spilling(source: Path, output: Path, *options: str) -> list[dict[str, str]]:
    """Compiles for all generations; what nvcc says of each kernel. Nothing spills, and there are no warnings."""
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    command = [str(NVCC), *NVCC_FLAGS, "-t", "2", *options, *targets, "-Xptxas", "-v", str(source), "-o", str(output)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    entries = [match.groupdict() for match in _ENTRY.finditer(report)]
    spilling = [e for e in entries if int(e["stores"]) or int(e["loads"])]
    assert not spilling, "\n".join(f"{e['kernel']} (sm_{e['architecture']}): {e['stores']} bytes" for e in spilling)
    assert "warning" not in report, report
    return entries


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
