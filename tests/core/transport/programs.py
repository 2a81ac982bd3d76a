# SPDX-License-Identifier: Apache-2.0
"""Compiles the C++ test programs of this folder with the installed library."""

from __future__ import annotations

from pathlib import Path

import libucx

import hipress
from tests.compiled import compiled

_HERE = Path(__file__).parent


def program(name: str) -> Path:
    """The compiled program of the source `name`.cc."""
    assert hipress.__file__ is not None
    library = Path(hipress.__file__).parent
    ucx = Path(libucx.__file__).parent
    command = ["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-restrict"]
    command += [f"-I{_HERE.parents[2]}", "-isystem", f"{ucx}/include", str(_HERE / f"{name}.cc")]
    linked = [f"-L{library}", "-lhipress", "-Wl,--allow-shlib-undefined"]
    linked += [f"-Wl,-rpath,{library}", f"-Wl,-rpath,{ucx}/lib", "-pthread"]
    return compiled(name, command, linked)
