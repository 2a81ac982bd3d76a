# SPDX-License-Identifier: Apache-2.0
"""Emulates two GPUs with a stand-in for the driver and kernels that are compiled for the processor."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hipress import _core
from tests.compiled import compiled
from tests.compll.emit.cuda.build import HOST_FLAGS, ROOT, listed
from tests.compll.programs import BUILTIN

_FLAGS = ("-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{ROOT}")


def fake_driver() -> Path:
    """The library that replaces libcuda.so.1."""
    compiler = os.environ.get("CXX", "c++")
    return compiled("libcuda_fake.so", [compiler, *_FLAGS, str(Path(__file__).with_name("fake_driver.cc"))])


class HostKernels:
    """Compiles kernels for the stand-in; it is called like hipress.compll.build.kernels.compile_kernels.

    The kernels of HiPress are compiled to one library, because the headers take long. They are not optimised, because
    that takes longer than what they do in the tests.
    """

    def __init__(self) -> None:
        codecs = [_core.create_codec(name).kernels or "" for name in ("fp16", *BUILTIN)]
        self._ours = [*codecs, *(text for _, text in _core.element_kernels())]
        self._made: dict[str, bytes] = {}
        self.titles: list[str] = []  # the title of each call

    def __call__(self, title: str, text: str, major: int, minor: int) -> bytes:
        assert (major, minor) == (9, 0)
        self.titles.append(title)
        whole = "\n".join(self._ours) if text in self._ours else text
        if whole not in self._made:
            self._made[whole] = os.fsencode(self._library(whole))
        return self._made[whole]

    def _library(self, text: str) -> Path:
        assert listed(text)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cc"
            source.write_text(text)
            compiler = os.environ.get("CXX", "c++")
            return compiled("kernels.so", [compiler, *HOST_FLAGS, "-O0", str(source)])
