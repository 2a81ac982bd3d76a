# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path

import pytest

from tests.compiled import compiled

ROOT = Path(__file__).resolve().parents[3]
LEVELS = ["generic", "x86-64-v3", "x86-64-v4"]
FLAGS = ["-std=c++20", "-O3", "-shared", "-fPIC", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wno-restrict", "-Werror"]


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    """The operator library, compiled with the options of generated code."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    sources = [Path(__file__).with_name("shim.cc"), ROOT / "core/element/multiversion.cc"]
    return ctypes.CDLL(str(compiled("shim.so", [compiler, *FLAGS, *WARNINGS, f"-I{ROOT}", *map(str, sources)])))


@pytest.fixture(params=range(len(LEVELS)), ids=LEVELS)
def ops(request: pytest.FixtureRequest, library: ctypes.CDLL) -> ctypes.CDLL:
    """The library at one instruction-set level; the test runs once for each level of this processor."""
    level: int = request.param
    if level > library.best_level():
        pytest.skip(f"this processor has no {LEVELS[level]}")
    library.set_level(level)
    return library
