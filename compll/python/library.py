# SPDX-License-Identifier: Apache-2.0
"""Programs in files: the user's, and those that come with HiPress."""

from __future__ import annotations

from pathlib import Path

from hipress.compll import ir
from hipress.compll.source import did_you_mean
from hipress.compll.typecheck import compile_text
from hipress.errors import InvalidArgument

_ALGORITHMS = Path(__file__).parent / "algorithms"


def read(path: str | Path) -> str:
    """The text of a program. Raises InvalidArgument if there is no such text."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None


def compile_file(path: str | Path, *, complete: bool = True) -> ir.Program:
    """Compiles a file. Raises CompileError if the program is wrong, InvalidArgument if it cannot be read."""
    return compile_text(read(path), str(path), complete=complete)


def builtin_files() -> dict[str, Path]:
    """The codecs that come with HiPress, by name."""
    return {path.stem: path for path in sorted(_ALGORITHMS.glob("*.cll"))}


def compile_builtin(name: str) -> ir.Program:
    """Compiles one of them."""
    files = builtin_files()
    if name not in files:
        raise InvalidArgument(f"there is no codec '{name}'; {did_you_mean(name, files)}")
    return compile_file(files[name])
