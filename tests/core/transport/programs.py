# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ test programs with the installed library."""

from __future__ import annotations

from pathlib import Path

import libucx

import hipress
from tests.compiled import compiled

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]


def program(name: str, *sources: str) -> Path:
    """The compiled program of these sources, relative to the root; without sources, of `name`.cc in this folder."""
    assert hipress.__file__ is not None
    library = Path(hipress.__file__).parent
    ucx = Path(libucx.__file__).parent
    command = ["g++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-restrict"]
    command += [f"-I{_ROOT}", "-isystem", f"{ucx}/include"]
    command += [str(_ROOT / source) for source in sources] or [str(_HERE / f"{name}.cc")]
    linked = [f"-L{library}", "-lhipress", "-Wl,--allow-shlib-undefined"]
    linked += [f"-Wl,-rpath,{library}", f"-Wl,-rpath,{ucx}/lib", "-pthread"]
    return compiled(name, command, linked)
