# SPDX-License-Identifier: Apache-2.0
"""Codecs in shared libraries; tests compile them when they need them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import hipress
from tests.compiled import compiled

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).with_name("momentum.cc")


def compiler() -> str:
    found = shutil.which(os.environ.get("CXX", "c++"))
    if found is None:
        pytest.skip("there is no C++ compiler")
    return found


def compile_library(source: Path, target: Path, **macros: str) -> Path:
    """Compiles a shared library that links the installed libhipress, and copies it to `target`."""
    assert hipress.__file__ is not None
    library = Path(hipress.__file__).parent
    defines = [f"-D{name}={value}" for name, value in macros.items()]
    options = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-ffp-contract=off", "-fPIC", "-shared", f"-I{ROOT}", *defines]
    libraries = [f"-L{library}", "-lhipress", "-Wl,--allow-shlib-undefined"]
    shutil.copyfile(compiled(f"{source.stem}.so", [compiler(), *options, str(source)], libraries), target)
    return target


def momentum_library(
    target: Path, name: str = "momentum_test", number: int = 5000, fingerprint: str = "first", **macros: str
) -> Path:
    given = {"NAME": f'"{name}"', "NUMBER": f"{number}", "FINGERPRINT": f'"{fingerprint}"'}
    return compile_library(SOURCE, target, **given, **macros)
