# SPDX-License-Identifier: Apache-2.0
"""Programs in files: users' programs, and the programs that come with HiPress."""

from __future__ import annotations

from pathlib import Path

from hipress.compll import ir
from hipress.compll.check.program import compile_text
from hipress.compll.frontend.program_limits import MOST_CHARACTERS
from hipress.compll.ir.source import did_you_mean
from hipress.errors import InvalidArgument

_ALGORITHMS = Path(__file__).parent.parent / "algorithms"


def read(path: str | Path) -> str:
    """The text of a program. Of a file that is too long it reads only the beginning, which the parser refuses.

    Raises InvalidArgument if the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None


def compile_file(path: str | Path, *, complete: bool = True) -> ir.Program:
    """Compiles a file. Raises CompileError if the program is wrong, InvalidArgument if it cannot be read."""
    return compile_text(read(path), str(path), complete=complete)


def builtin_files() -> dict[str, Path]:
    """The codecs that come with HiPress, by name."""
    return {path.stem: path for path in sorted(_ALGORITHMS.glob("*.cll"))}


def compile_builtin(name: str) -> ir.Program:
    """Compiles a codec that comes with HiPress."""
    files = builtin_files()
    if name not in files:
        raise InvalidArgument(f"there is no codec '{name}'; {did_you_mean(name, files)}")
    return compile_file(files[name])
