# SPDX-License-Identifier: Apache-2.0
"""Emitted CUDA sources: compiled by NVRTC for GPUs, or by the C++ compiler for the processor."""

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

ROOT = Path(__file__).parents[4]
#: Generations of GPUs.
ARCHITECTURES = ("80", "90", "100")
#: For a library whose kernels run on the processor.
HOST_FLAGS = (
    *("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC", "-shared"),
    *("-DHIPRESS_HOST_EXECUTION", f"-I{ROOT}"),
)
_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for 'sm_\w+'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads",
    re.DOTALL,
)


def kernels_without_spilling(text: str, architecture: str) -> list[str]:
    """Compiles for a generation of GPUs; returns the kernels' symbols. No kernel spills or causes a warning."""
    _, log = find_nvrtc().compile(text, f"sm_{architecture}", include_folders(), ["--ptxas-options=-v"])
    entries = [match.groupdict() for match in _ENTRY.finditer(log)]
    spilling = [e for e in entries if int(e["stores"]) or int(e["loads"])]
    assert not spilling, "\n".join(f"{e['kernel']} (sm_{architecture}): {e['stores']} bytes" for e in spilling)
    assert "warning" not in log, log
    return [e["kernel"] for e in entries]


def origin_of(program: ir.Program) -> Origin:
    return Origin(f"{program.name}.cll", program.name)


def kernels(program: ir.Program) -> str:
    """The program's text for NVRTC."""
    return CUDA.kernels(program, origin_of(program))


def listed(text: str) -> list[str]:
    """The symbols of the kernels that a text makes."""
    return re.findall(r"^HIPRESS_KERNEL\((\w+),", text, re.MULTILINE)


def emit(program: ir.Program, directory: Path) -> Path:
    """Writes the program's CUDA source."""
    file = directory / f"{program.name}.cu"
    file.write_text(CUDA.library(program, origin_of(program)))
    return file


def host_library(program: ir.Program, directory: Path) -> Path:
    """A library whose kernels run on the processor."""
    source, library = emit(program, directory), directory / f"lib{program.name}_host.so"
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, *HOST_FLAGS, "-x", "c++", str(source), "-o", str(library)], check=True)
    return library


def starting_library(programs: Sequence[ir.Program], directory: Path) -> Path:
    """A library with the host's functions of codecs, whose kernels are in code for a GPU."""
    library = directory / "libcodecs.so"
    sources = [str(emit(program, directory)) for program in programs]
    compiler = os.environ.get("CXX", "c++")
    flags = ("-std=c++20", "-O1", "-fPIC", "-shared", f"-I{ROOT}")
    subprocess.run([compiler, *flags, "-x", "c++", *sources, "-o", str(library)], check=True)
    return library
