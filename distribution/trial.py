# SPDX-License-Identifier: Apache-2.0
"""Tries a wheel as a user installs it: `python -m distribution.trial WHEEL`.

The program installs the wheel into a new, empty environment of its version of Python. There, without a compiler in
PATH, the doctor must find no failure, and two ranks must average a compressed tensor.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from distribution.interpreters import interpreter

STEP = Path(__file__).resolve().parents[1] / "tests" / "distribution" / "step.py"
#: Deadline of a command (seconds), because a download may take minutes.
_SECONDS = 900.0


def tried(wheel: Path) -> str:
    """The version of Python that the wheel works with. Raises RuntimeError with the output of a command that fails."""
    tag = re.search(r"-cp3(\d+)-", wheel.name)
    if tag is None:
        raise RuntimeError(f"{wheel.name} is for no version of CPython 3")
    version = f"3.{tag[1]}"
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "environment"
        _run([interpreter(version), "-m", "venv", folder], work)
        _run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel.resolve()], work)
        told = _run([folder / "bin" / "hipress", "doctor", "--json"], work, path=folder / "bin")
        failed = [check["name"] for check in json.loads(told)["checks"] if check["status"] == "failed"]
        if failed:
            raise RuntimeError(f"{wheel.name}: hipress doctor says that {', '.join(failed)} failed:\n{told}")
        ranks = [folder / "bin" / "hipress", "run", "-np", "2", "python", STEP]
        printed = _run(ranks, work, path=folder / "bin")
        if printed.count("average 1.50") != 2:
            raise RuntimeError(f"{wheel.name}: two ranks did not average:\n{printed}")
    return version


def _run(command: Sequence[str | Path], work: str, path: Path | None = None) -> str:
    """Runs a command and returns its standard output. With `path`, the command finds only the programs in `path`."""
    words = [str(word) for word in command]
    variables = None if path is None else {"PATH": str(path), "HOME": work, "LANG": "C.UTF-8"}
    done = subprocess.run(words, cwd=work, env=variables, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    for one in sys.argv[1:]:
        print(f"{one}: works with Python {tried(Path(one))}")
