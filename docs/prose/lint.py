# SPDX-License-Identifier: Apache-2.0
"""Checks the English of the documents, the docstrings and the error texts: `make lint` runs it.

python docs/prose/lint.py [FILE...]      these files; without one, all
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.prose.rules import complaints

ROOT = Path(__file__).parents[2]
_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "examples/README.md")
_PYTHON = ("bindings", "compll", "secopa", "frameworks")
_CPP = ("core", "bindings", "frameworks")
#: A whole string literal of C++, on one line.
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
#: Number of words below which a string is no sentence, but a name, a format or a piece of code.
_SENTENCE = 4


def files() -> Iterator[Path]:
    """All files with texts for users."""
    yield from (ROOT / page for page in _PAGES)
    yield from sorted((ROOT / "docs").rglob("*.md"))
    for folder in _PYTHON:
        yield from sorted((ROOT / folder).rglob("*.py"))
    for folder in _CPP:
        yield from sorted(file for file in (ROOT / folder).rglob("*") if file.suffix in (".cc", ".h"))


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that people read, with their lines."""
    source = file.read_text()
    if file.suffix == ".md":
        yield 1, re.sub(r"^```.*?^```$", "", source, flags=re.DOTALL | re.MULTILINE)
    elif file.suffix == ".py":
        yield from _python(ast.parse(source))
    else:
        for number, line in enumerate(source.splitlines(), 1):
            if not line.lstrip().startswith(("#", "//")):
                yield from ((number, text) for text in _LITERAL.findall(line) if len(text.split()) >= _SENTENCE)


def _python(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings, and the strings of errors, warnings, logs and help texts."""
    for part in ast.walk(tree):
        if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(part)
            if docstring is not None:
                yield getattr(part, "lineno", 1), docstring
        elif isinstance(part, ast.Raise) and part.exc is not None:
            yield from _strings(part.exc)
        elif isinstance(part, ast.keyword) and part.arg in ("help", "about"):
            yield from _strings(part.value)


def _strings(expression: ast.expr) -> Iterator[tuple[int, str]]:
    for part in ast.walk(expression):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value.split()) >= _SENTENCE:
            yield part.lineno, part.value


def main() -> None:
    given = [Path(name).resolve() for name in sys.argv[1:]]
    wrong = [
        f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}:{line}: {words!r}: {instead}"
        for file in given or files()
        for line, text in texts(file)
        for words, instead in complaints(text)
    ]
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
