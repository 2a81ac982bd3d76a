# SPDX-License-Identifier: Apache-2.0
"""Short runs of the fuzzers, the same in every run of the tests; `make fuzz` runs the fuzzers for an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.build import QUICK_TREE, ROOT, build

HERE = Path(__file__).parent

# Building takes a minute on an idle core.
pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fuzzers() -> Path:
    return build(QUICK_TREE)


def run(command: list[str | Path], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=os.environ | {"ASAN_OPTIONS": "", "UBSAN_OPTIONS": "print_stacktrace=1"} | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


# A quarter of these runs finds 97 % of the pairs of blocks that they find.
@pytest.mark.parametrize(("target", "runs"), [("decoders", 20_000), ("wire", 50_000)])
def test_any_bytes_are_decoded_or_refused(target: str, runs: int, fuzzers: Path, tmp_path: Path) -> None:
    seeds = HERE / "seeds" / target
    done = run([fuzzers / f"fuzz_{target}", f"--runs={runs}", f"--seeds={seeds}", f"--crashes={tmp_path}"])
    assert done.returncode == 0, done.stderr
    assert f"{runs} runs" in done.stdout


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris has no wheel for this Python or machine")
def test_any_text_is_compiled_or_refused(tmp_path: Path) -> None:
    found = tmp_path / "corpus"
    found.mkdir()
    settings = ["-runs=2500", "-seed=1", f"-artifact_prefix={tmp_path}/"]
    programs = ["compll/algorithms", "examples/compll", "tests/compll/check/wrong"]
    module = [sys.executable, "-m", "tests.fuzz.fuzz_parser"]
    done = run([*module, *settings, found, *programs], PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stderr[-10_000:]
    assert "Done 25" in done.stderr


@pytest.mark.parametrize("seed", [1, 2])
def test_a_planted_bug_is_found_by_coverage_only(seed: int, fuzzers: Path, tmp_path: Path) -> None:
    """The planted bug needs the right values of two bytes among 64; hardly any random input has them."""
    command = [fuzzers / "fuzz_planted", "--runs=400000", f"--seed={seed}", f"--crashes={tmp_path}"]
    done = run([*command, "--guided=0", "--runs=100000"])
    assert done.returncode == 0, done.stderr
    done = run(command)
    assert done.returncode == 1
    assert "index 4 out of bounds" in done.stderr or "index 5 out of bounds" in done.stderr, done.stderr
    crash = (tmp_path / "crash").read_bytes()
    assert (crash[17], crash[48]) == (0xC3, 0x5E)
    again = run([fuzzers / "fuzz_planted", tmp_path / "crash", f"--crashes={tmp_path}"])
    assert again.returncode == 1


def test_a_seed_repeats_its_run(fuzzers: Path, tmp_path: Path) -> None:
    corpora = []
    for number in (1, 2):
        corpus = tmp_path / str(number)
        done = run([fuzzers / "fuzz_wire", "--runs=5000", "--seed=7", f"--corpus={corpus}"])
        assert done.returncode == 0, done.stderr
        corpora.append(sorted(path.name for path in corpus.iterdir()))
    assert corpora[0] == corpora[1]
    assert len(corpora[0]) > 20
