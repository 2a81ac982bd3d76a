# SPDX-License-Identifier: Apache-2.0
"""Tests the package with each version of PyTorch and of Python that HiPress promises.

    python -m distribution.torch_versions [PAIR...]      such as 3.12:2.14; without arguments, all pairs

`make test-versions` runs it. Each pair has an environment in build/versions that later runs use again; the pair of this
environment needs no other one. A pair is left out if this machine has no such Python, or if pip cannot install that
torch. All others must pass, within 25 minutes; a pair that does not end in time has failed. Downloads count: torch's
builds for GPUs are of several GB, and PIP_EXTRA_INDEX_URL with PyTorch's CPU index saves them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path

from distribution.interpreters import interpreter
from distribution.wheels import ROOT, compiled

KEPT = ROOT / "build" / "versions"
PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = ("2.11", "2.12", "2.13", "2.14")
#: For all pairs together.
SECONDS = 25 * 60.0
#: The tests of every commit are quick because they start no processes. These do: DDP's hook, FSDP2, and the backend.
WITH_PROCESSES = (
    "tests/torch/installed/test_backend_by_name.py::test_the_name_is_enough",
    "tests/torch/ddp/test_hook.py::test_without_a_codec_it_is_ddp_to_the_bit[2]",
    "tests/torch/fsdp/test_replicas.py::test_with_a_codec_replicas_are_identical_and_few_bytes_cross",
    "tests/torch/fsdp/test_reduce_scatter.py::test_shards_and_replicas_can_both_be_compressed",
    "tests/torch/process_groups/test_backend.py::test_hsdp_without_a_codec_is_hsdp_to_the_bit[False]",
)
_TESTS = (
    ("-m", "not slow and not thorough", "tests/torch"),
    ("-m", "slow and not thorough", *WITH_PROCESSES),
)


@dataclass(frozen=True)
class Result:
    """What became of a pair."""

    python: str
    torch: str
    """The version that ran, or that was asked for."""
    state: str
    """passed, failed or left out."""
    note: str
    seconds: float


class LeftOut(Exception):
    """This machine cannot have the pair."""


class Failed(Exception):
    """A command of the pair has failed."""


class TimeOver(Failed):
    """The pair has not ended in time: nobody knows whether it works."""


def results_of(pairs: Sequence[tuple[str, str]], test: Callable[[str, str, float], tuple[str, str]]) -> list[Result]:
    """Tests pair after pair, until 25 minutes are over. `test` gets versions of Python and torch, and the time at which
    it must have ended; it returns the version of torch that ran, and a note. It raises LeftOut or Failed."""
    results, end = [], time.monotonic() + SECONDS
    for python, torch in pairs:
        begin = time.monotonic()
        try:
            ran, note = test(python, torch, end)
            state = "passed"
        except (LeftOut, Failed) as error:
            ran, note, state = torch, str(error), "left out" if isinstance(error, LeftOut) else "failed"
        results.append(Result(python, ran, state, note, time.monotonic() - begin))
        print(_row(results[-1]), flush=True)
    return results


def succeeded(results: Sequence[Result]) -> bool:
    """Whether no pair has failed, and at least one has passed."""
    states = {each.state for each in results}
    return "passed" in states and "failed" not in states


def _test(python: str, torch: str, end: float) -> tuple[str, str]:
    log = KEPT / f"{python}-{torch}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    program = _environment(python, torch, end, log)
    print_version = "import torch; print(torch.__version__)"
    ran = _run([program, "-c", print_version], end, log).splitlines()[-1]
    notes = []
    for tests in _TESTS:
        told = _run([program, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests], end, log)
        notes.append(told.splitlines()[-1])
    return ran, "; ".join(notes)


def _environment(python: str, torch: str, end: float, log: Path) -> Path:
    """The Python of the pair's environment, with the package of this clone."""
    if python == own_python() and installed("torch").startswith(f"{torch}."):
        return Path(sys.executable)
    folder = KEPT / f"python-{python}-torch-{torch}"
    program = folder / "bin" / "python"
    pip = [program, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run([interpreter(python), "-m", "venv", folder], end, log)
            _run([*pip, f"torch=={torch}.*"], end, log)
        except TimeOver:
            raise
        except (RuntimeError, Failed) as error:
            raise LeftOut(str(error)) from None
    wheel = _wheel(python, end)
    if not (folder / "complete").exists():
        pinned = [f"--constraint={ROOT / 'requirements' / name}.txt" for name in ("demo", "dev")]
        _run([*pip, f"{wheel}[test,examples]", "pyyaml", *pinned], end, log)
        (folder / "complete").touch()
    _run([*pip, "--no-deps", "--force-reinstall", wheel], end, log)
    return program


def own_python() -> str:
    """Of this environment."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _wheel(python: str, end: float) -> Path:
    """What make has built for this Python, or a build for another one."""
    if python == own_python():
        (built,) = (ROOT / "build" / "wheel").glob("*.whl")
        return built
    try:
        left = max(1.0, end - time.monotonic())
        return compiled(python, KEPT / f"wheel-{python}", KEPT / f"tree-{python}", seconds=left)
    except subprocess.SubprocessError as error:
        raise Failed(f"no wheel for Python {python}: {error}") from None


def _run(command: Sequence[str | Path], end: float, log: Path) -> str:
    """The output of a command. Raises Failed with the last line of the output."""
    words = [str(word) for word in command]
    try:
        left = max(1.0, end - time.monotonic())
        done = subprocess.run(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=left, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeOver(f"{SECONDS / 60:.0f} minutes were over in: {' '.join(words)}") from None
    with log.open("a") as file:
        file.write(f"{' '.join(words)}\n{done.stdout}\n")
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"{words[0]} ended with {done.returncode}"]
        raise Failed(f"{lines[-1]} (see {log.relative_to(ROOT)})")
    return done.stdout.strip()


def _row(result: Result) -> str:
    return f"| {result.python:6} | {result.torch:13} | {result.state:8} | {result.seconds:5.0f} s | {result.note} |"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    pairs = [(python, torch) for torch in TORCHES for python in PYTHONS]
    if arguments:
        chosen = [tuple(each.split(":")) for each in arguments]
        pairs = [(python, torch) for python, torch in chosen]
    print("| Python | torch         | result   |    time | tests |\n|---|---|---|--:|---|", flush=True)
    return 0 if succeeded(results_of(pairs, _test)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
