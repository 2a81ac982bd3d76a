# SPDX-License-Identifier: Apache-2.0
"""Compiles emitted CUDA sources: with NVRTC for GPUs, or with the C++ compiler for the processor."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hipress.compll import ir
from hipress.compll.build.kernels import include_folders
from hipress.compll.build.nvrtc import find_nvrtc
from hipress.compll.emit.cuda.codec import CUDA
from hipress.compll.emit.origin import Origin
from tests.compiled import compiled
from tests.compll.emit.cuda.linker import assembler_log

ROOT = Path(__file__).parents[4]
#: Compute capabilities of three generations of GPUs.
ARCHITECTURES = ("80", "90", "100")
#: Bytes of a thread's registers that may go through memory. On an H200 a fourth block of threads on a multiprocessor
#: gains more than this costs.
MOST_SPILLED = 64
#: Compiler options for a library whose kernels run on the processor.
HOST_FLAGS = (
    *("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"),
    *("-DHIPRESS_HOST_EXECUTION", f"-I{ROOT}"),
)
#: The same for kernels that run thread by thread. Their namespace has another name: a process has one copy of the
#: static variables of inline functions, whichever library they come from, and here they are of another kind.
THREAD_FLAGS = (*HOST_FLAGS, "-O0", "-DHIPRESS_THREAD_EXECUTION", "-Dcuda=cuda_by_threads")
_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for 'sm_\w+'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads",
    re.DOTALL,
)


def kernels_without_spilling(text: str, architecture: str) -> list[str]:
    """Compiles for a compute capability and returns the kernels' symbols. Checks that no kernel spills registers or
    causes a warning."""
    _, log = find_nvrtc().compile(text, f"sm_{architecture}", include_folders(), ["--ptxas-options=-v"])
    return _not_spilling(log, architecture)


def kernels_of_all_architectures(text: str) -> dict[str, list[str]]:
    """Like kernels_without_spilling(), for each of ARCHITECTURES, in half the time: NVRTC makes PTX once, and nvJitLink
    makes the code of each GPU of it. The text must not depend on the GPU."""
    assert "__CUDA_ARCH__" not in text
    made = ptx(text)
    return {each: _not_spilling(assembler_log(made, each), each) for each in ARCHITECTURES}


def ptx(text: str) -> bytes:
    """Compiles for all of ARCHITECTURES, but to PTX only, which takes half of the time. Checks that this causes no
    warning."""
    made, log = find_nvrtc().compile(text, f"compute_{ARCHITECTURES[0]}", include_folders())
    assert "warning" not in log, log
    return made


def _not_spilling(log: str, architecture: str) -> list[str]:
    entries = [match.groupdict() for match in _ENTRY.finditer(log)]
    spilling = [e for e in entries if max(int(e["stores"]), int(e["loads"])) > MOST_SPILLED]
    assert not spilling, "\n".join(f"{e['kernel']} (sm_{architecture}): {e['stores']} bytes" for e in spilling)
    assert "warning" not in log, log
    return [e["kernel"] for e in entries]


def origin_of(program: ir.Program) -> Origin:
    return Origin(f"{program.name}.cll", program.name)


def kernels(program: ir.Program) -> str:
    """The program's source text for NVRTC."""
    return CUDA.kernels(program, origin_of(program))


def listed(text: str) -> list[str]:
    """The symbols of the kernels in a source text."""
    return re.findall(r"^HIPRESS_KERNEL\((\w+),", text, re.MULTILINE)


def emit(program: ir.Program, directory: Path) -> Path:
    """Writes the program's CUDA source and returns its file."""
    file = directory / f"{program.name}.cu"
    file.write_text(CUDA.library(program, origin_of(program)))
    return file


def host_library(program: ir.Program, directory: Path, flags: Sequence[str] = (*HOST_FLAGS, "-O0")) -> Path:
    """Compiles the program to a library whose kernels run on the processor, without optimisation: compiling takes
    longer than what tests run."""
    source, library = emit(program, directory), directory / f"lib{program.name}_host.so"
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, *flags, "-x", "c++", str(source), "-o", str(library)], check=True)
    return library


def starting_library(programs: Sequence[ir.Program], directory: Path) -> Path:
    """Compiles the host functions of codecs to a library; the kernels are separate code for a GPU."""
    sources = [str(emit(program, directory)) for program in programs]
    flags = ("-std=c++20", "-O1", "-fPIC", "-shared", f"-I{ROOT}", "-x", "c++")
    return compiled("codecs_start.so", [os.environ.get("CXX", "c++"), *flags, *sources])
