# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler of this machine: it makes libraries from the C++ of codecs and of frameworks' operators."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipress.errors import HipressError, Timeout, Unsupported

#: The compilers to look for, in this order, if $CXX is not set.
_USUAL = ("g++", "c++", "clang++")
#: The options with which libhipress is compiled. Products are not fused into sums, because all instruction sets must
#: give the same bits. Without traps and errno, comparisons and rounding become vector code, and values stay the same.
FLAGS = ("-std=c++20", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno")
_ANSWER_TIMEOUT = 30.0


@dataclass(frozen=True)
class Compiler:
    """`version` is all that the compiler prints about itself, with the machine that it compiles for."""

    command: tuple[str, ...]
    version: str

    @property
    def title(self) -> str:
        """The line with the number of the version, for errors."""
        return next((line for line in self.version.splitlines() if " version " in line), shlex.join(self.command))


@dataclass(frozen=True)
class Toolchain:
    """A compiler with the headers of this HiPress and the library that its results are linked with.

    `options` are more options for the compiler; for operators, those of the framework.
    """

    compiler: Compiler
    include: Path
    libhipress: Path
    options: tuple[str, ...] = ()

    def command(self, source: Path, library: Path) -> list[str]:
        """The command that makes `library` from `source`."""
        # The process that loads the library provides the libraries that libhipress itself needs.
        link = [str(self.libhipress), "-Wl,--allow-shlib-undefined"]
        files = [f"-I{self.include}", str(source), "-o", str(library)]
        return [*self.compiler.command, *FLAGS, *files, *link, *self.options]


def find_toolchain(options: Iterable[str] = ()) -> Toolchain:
    """Finds a compiler. Raises Unsupported, which names packages to install, if there is none."""
    import hipress

    package = Path(hipress.__path__[0])
    return Toolchain(find_compiler(), package / "include", package / "libhipress.so", tuple(options))


def find_compiler() -> Compiler:
    """The command $CXX, which may have arguments, or else the first of g++, c++ and clang++ in PATH."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise Unsupported(f"CXX is {shlex.join(chosen)}, and there is no such program; correct it or unset it")
        return _asked(tuple(chosen))
    found = next((name for name in _USUAL if shutil.which(name) is not None), None)
    if found is None:
        raise Unsupported(
            f"a C++20 compiler is needed, and none of {', '.join(_USUAL)} is in PATH. Install one "
            "(apt install g++, dnf install gcc-c++, or conda install gxx), or set CXX to one. Or compile on another "
            "machine like this one; `hipress compll build --library` compiles a codec."
        )
    return _asked((found,))


def _asked(command: tuple[str, ...]) -> Compiler:
    code, output = _finished([*command, "-v"], _ANSWER_TIMEOUT)
    if code != 0:
        raise Unsupported(f"the compiler does not work: {shlex.join(command)} -v ended with {code}: {output.strip()}")
    return Compiler(command, output)


def compile_library(toolchain: Toolchain, title: str, source: Path, library: Path, log: Path, timeout: float) -> None:
    """Compiles a source file; errors call it `title`. If that fails, `log` says why.

    Raises Timeout after `timeout` seconds, HipressError if the compiler finds an error.
    """
    command = toolchain.command(source, library)
    # The compiler's files for the assembler and the linker are code, too: they lie beside the result, not in a TMPDIR
    # where another user may write.
    code, output = _finished(command, timeout, {"TMPDIR": str(library.parent)})
    if code == 0:
        return
    text = source.read_text(encoding="utf-8")
    log.write_text(f"{shlex.join(command)}\n{toolchain.compiler.version}\n{output}\n{text}", encoding="utf-8")
    lines = output.strip().splitlines() or [f"the compiler ended with {code}"]
    first = next((line for line in lines if "error" in line.lower()), lines[0])
    raise HipressError(
        f"the C++ of {title} does not compile: {first}. If {toolchain.compiler.title} does not support all of "
        f"C++20, set CXX to a newer compiler. Otherwise this is a defect of HiPress; please report it with {log}"
    )


def _finished(command: list[str], timeout: float, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Runs a command; returns its exit code and output. At the deadline it ends all its processes."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C", **(variables or {})},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Timeout(f"{shlex.join(command)} was not ready after {timeout:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, output
