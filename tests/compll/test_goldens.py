# SPDX-License-Identifier: Apache-2.0
"""The C++ and the CUDA source of the codecs that come with HiPress equal those in golden/: three codecs whole, of the
others a hash.

A change of the compiler that changes generated code changes these files, so a review sees that there is a difference;
`python compll/compare_generated.py` shows it for all codecs. This command writes the files anew:
python -m pytest tests/compll/test_goldens.py --update-golden
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import clang_format
import pytest

from compll import compare_generated
from hipress.compll import compile_builtin
from hipress.compll.check.library import builtin_files, read
from hipress.compll.emit.origin import Origin
from hipress.compll.emit.targets import TARGETS
from tests.compll.programs import BUILTIN

GOLDEN = Path(__file__).parent / "golden"
HASHES = GOLDEN / "hashes.json"
#: A codec with levels of a block, one of single bits with a residual, and one that selects values.
WHOLE = ["int8", "onebit", "topk"]


def generated(name: str, target: str) -> str:
    origin = Origin(f"compll/algorithms/{name}.cll", read(builtin_files()[name]), builtin=True)
    return TARGETS[target].codec(compile_builtin(name), origin)


def formatted(text: str) -> str:
    """The text in the repository's style, as `make format` writes it."""
    command = [str(clang_format.get_executable("clang-format")), f"--assume-filename={GOLDEN / 'codec.cc'}"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("target", TARGETS)
def test_generated_code_is_the_golden_one(name: str, target: str, request: pytest.FixtureRequest) -> None:
    text = formatted(generated(name, target))
    golden = GOLDEN / f"{name}{TARGETS[target].suffix}"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_generated_code_of_the_other_codecs_has_the_golden_hashes(request: pytest.FixtureRequest) -> None:
    found = {
        f"{name}{TARGETS[target].suffix}": hashlib.sha256(generated(name, target).encode()).hexdigest()[:16]
        for name in sorted(set(BUILTIN) - set(WHOLE))
        for target in TARGETS
    }
    if request.config.getoption("--update-golden", default=False):
        HASHES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    assert found == json.loads(HASHES.read_text(encoding="utf-8")), (
        "generated code has changed; `python compll/compare_generated.py HEAD` shows how"
    )


def test_every_golden_has_a_codec() -> None:
    expected = {f"{name}{target.suffix}" for name in WHOLE for target in TARGETS.values()}
    assert {path.name for path in GOLDEN.iterdir()} == {*expected, HASHES.name}


@pytest.mark.slow
def test_versions_are_compared_by_their_own_compilers(tmp_path: Path) -> None:
    """The second version has another codec and another compiler."""
    root = tmp_path / "repository"
    for part in ("compll", "bindings/python"):
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(Path(compare_generated.ROOT, part)), str(root / part)], check=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    codec = root / "compll" / "algorithms" / "tbq.cll"
    codec.write_text("// another program\n" + codec.read_text())
    old, new = tmp_path / "old", tmp_path / "new"
    compare_generated.generate("HEAD", old, root)
    compare_generated.generate(None, new, root)
    assert (old / "int8_cuda.cc").read_text() == (new / "int8_cuda.cc").read_text()
    shown = compare_generated.difference(old, new)
    assert "tbq.cc" in shown
    assert "int8" not in shown
    assert not compare_generated.difference(old, new, ["int8"])
