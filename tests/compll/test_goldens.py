# SPDX-License-Identifier: Apache-2.0
"""The C++ and the CUDA source of each codec that comes with HiPress equal the files in golden/.

A change of the compiler that changes generated code changes these files, so a review sees the difference. This command
writes them anew: python -m pytest tests/compll/test_goldens.py --update-golden
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import clang_format
import pytest

from hipress.compll import compile_builtin
from hipress.compll.check.library import builtin_files, read
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.targets import TARGETS
from tests.compll.programs import BUILTIN

GOLDEN = Path(__file__).parent / "golden"


def formatted(text: str) -> str:
    """The text in the repository's style, as `make format` writes it."""
    command = [str(clang_format.get_executable("clang-format")), f"--assume-filename={GOLDEN / 'codec.cc'}"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("target", TARGETS)
def test_generated_code_is_the_golden_one(name: str, target: str, request: pytest.FixtureRequest) -> None:
    origin = Origin(f"compll/algorithms/{name}.cll", read(builtin_files()[name]), builtin=True)
    text = formatted(TARGETS[target].codec(compile_builtin(name), origin))
    golden = GOLDEN / f"{name}{TARGETS[target].suffix}"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_every_golden_has_a_codec() -> None:
    expected = {f"{name}{target.suffix}" for name in BUILTIN for target in TARGETS.values()}
    assert {path.name for path in GOLDEN.iterdir()} == expected
