# SPDX-License-Identifier: Apache-2.0
"""From a program to the files of `hipress compll build`, and to the library that `hipress.load_codec` loads."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hipress.compll import ir
from hipress.compll.build.cache import cache_folder, cached, opened
from hipress.compll.build.compiler import FLAGS, Toolchain, compile_library, find_toolchain
from hipress.compll.check.library import read
from hipress.compll.check.program import compile_text
from hipress.compll.emit.cpu.codec import CPU, emit_plugin
from hipress.compll.emit.cuda.codec import CUDA
from hipress.compll.emit.origin import Origin
from hipress.compll.wrappers import mxnet as wrappers_mxnet
from hipress.compll.wrappers import tensorflow as wrappers_tensorflow
from hipress.compll.wrappers import torch as wrappers_torch
from hipress.compll.wrappers.codec_interface import CodecInterface, codec_interface
from hipress.errors import InvalidArgument

#: The most seconds for compiling a codec; the largest codec that comes with HiPress takes three.
COMPILE_TIMEOUT = 300.0
_WRAPPERS = {"torch": wrappers_torch, "tensorflow": wrappers_tensorflow, "mxnet": wrappers_mxnet}
FRAMEWORKS = tuple(_WRAPPERS)


@dataclass(frozen=True)
class CodecSource:
    """A complete program that has been checked, and the interface of its operators."""

    program: ir.Program
    interface: CodecInterface
    text: str

    @property
    def name(self) -> str:
        return self.program.name


def read_codec(path: str | Path) -> CodecSource:
    """Reads a program. Raises CompileError if it is wrong or incomplete, InvalidArgument if it cannot be read."""
    text = read(path)
    program = compile_text(text, str(path))
    return CodecSource(program, codec_interface(program), text)


def body(codec: CodecSource) -> str:
    """The complete C++ of a codec: compiled and linked with libhipress, it can be loaded.

    It depends on the program only, not on the path of its file, so a copy need not be compiled again.
    """
    origin = Origin(f"{codec.name}.cll", codec.text)
    parts = (CPU.codec(codec.program, origin), CUDA.library(codec.program, origin), emit_plugin(codec.program, origin))
    return "".join(parts)


def write_sources(codec: CodecSource, parts: Iterable[str], frameworks: Iterable[str], folder: Path) -> list[Path]:
    """Writes the `parts` ("body", "wrapper", "register"), the latter two for each framework; returns the files."""
    parts, texts = set(parts), {}
    if "body" in parts:
        texts[f"{codec.name}_body.cc"] = body(codec)
    for framework in frameworks:
        if "wrapper" in parts:
            texts[f"{codec.name}_{framework}_wrapper.cc"] = _WRAPPERS[framework].wrapper(codec.interface)
        if "register" in parts:
            texts[f"{codec.name}_{framework}_register.cc"] = _WRAPPERS[framework].registration(codec.interface)
    return [_write(folder, name, text.encode()) for name, text in texts.items()]


def write_library(codec: CodecSource, folder: Path, timeout: float = COMPILE_TIMEOUT) -> Path:
    """Writes <name>.so, for machines without a compiler: with code for each instruction-set level."""
    with opened(library_of(codec, timeout, every_level=True)) as name:
        return _write(folder, f"{codec.name}.so", Path(name).read_bytes())


def library_of(codec: CodecSource, timeout: float = COMPILE_TIMEOUT, *, every_level: bool = False) -> Path:
    """The codec's library, which is compiled unless the cache has it.

    It has code for the instruction-set level of this process alone, or for `every_level`.

    Raises Unsupported without a compiler, HipressError if the C++ does not compile, Timeout, and InvalidArgument if
    the cache cannot be written.
    """
    toolchain, text = find_toolchain(() if every_level else (_this_level(),)), body(codec)
    key = f"{codec.name}-{_fingerprint(toolchain, text)}"

    def make(work: Path) -> Path:
        source, library = work / f"{codec.name}.cc", work / f"{codec.name}.so"
        source.write_text(text, encoding="utf-8")
        log = cache_folder() / f"{key}.log"
        compile_library(toolchain, f"codec {codec.name}", source, library, log, timeout)
        return library

    # A process that waits for another one gives it the whole time for compiling, and some more to begin and to end.
    return cached(key, make, timeout + 30.0)


def _this_level() -> str:
    """The compiler's option for libraries that only this machine loads."""
    from hipress import _core

    _core.isa_level()  # raises InvalidArgument if HIPRESS_ISA is wrong
    levels = _core.isa_levels()
    # Not isa_level(): a measurement may have lowered it for a moment.
    return f"-DHIPRESS_COMPILED_LEVEL={levels.index(os.environ.get('HIPRESS_ISA') or levels[-1])}"


def _fingerprint(toolchain: Toolchain, text: str) -> str:
    """A checksum of all inputs of the library. The emitter needs no part in it, since its text is an input."""
    compiler = toolchain.compiler
    parts = [text, *compiler.command, *FLAGS, *toolchain.options, compiler.version, _headers(toolchain.include)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _headers(include: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted((include / "core").rglob("*.h")):
        digest.update(f"{file.relative_to(include)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _write(folder: Path, name: str, content: bytes) -> Path:
    """Writes a file by renaming, because a process may have loaded a library of that name."""
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            (Path(work) / name).write_bytes(content)
            os.replace(Path(work) / name, path)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error}") from None
    return path
