# SPDX-License-Identifier: Apache-2.0
"""`hipress compll`, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hipress.compll.check.library import builtin_files
from tests.compll.programs import BUILTIN, codec, normal


def hipress(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hipress.cli", "compll", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_check(tmp_path: Path) -> None:
    assert "codec 'tbq' is fine; parameters: threshold=0.05" in hipress("check", str(builtin_files()["tbq"]))
    wrong = tmp_path / "wrong.cll"
    wrong.write_text("void XEncode(")
    assert hipress("check", str(wrong), code=1).startswith(f"{wrong}:1:14: error: the program ends")
    assert "cannot read" in hipress("check", str(tmp_path / "nothing.cll"), code=2)


@pytest.mark.slow
def test_run(tmp_path: Path) -> None:
    g, run = normal(100), codec("tbq", threshold=0.5)
    state = run.new_state(100)
    np.save(tmp_path / "g.npy", g)
    words = ["run", "tbq", "--param", "threshold=0.5", "--input"]
    for _ in range(2):
        held = f"residual={tmp_path}/r.npy"
        assert "100 elements, 25 bytes" in hipress(*words, f"{tmp_path}/g.npy", "--state", held, "-o", f"{tmp_path}/m")
        assert (tmp_path / "m").read_bytes() == run.encode(g, state)
        assert np.array_equal(np.load(tmp_path / "r.npy"), state["residual"])
    hipress(*words, f"{tmp_path}/m", "--decode", "--count", "100", "-o", f"{tmp_path}/d.npy")
    assert np.array_equal(np.load(tmp_path / "d.npy"), run.decode((tmp_path / "m").read_bytes(), 100))
    wrong = [*words, f"{tmp_path}/m", "--decode", "--count", "96", "-o", f"{tmp_path}/e.npy"]
    assert "25 bytes, its fields take 24" in hipress(*wrong, code=2)
    np.save(tmp_path / "c.npy", g.astype(np.complex64))
    assert "of type complex64" in hipress(*words, f"{tmp_path}/c.npy", "-o", f"{tmp_path}/m", code=2)
    assert "no state 'x'" in hipress(*words, f"{tmp_path}/g.npy", "--state", "x=y", "-o", f"{tmp_path}/m", code=2)


def test_try_refuses_what_it_cannot_show() -> None:
    assert "1 to 1024 values, not 1025" in hipress("try", "onebit", *["1"] * 1025, code=2)
    assert "--steps 0: expected 1 or more" in hipress("try", "onebit", "1", "--steps", "0", code=2)
    assert "expected NAME=VALUE" in hipress("try", "onebit", "-1", "--param", "block", code=2)


def test_stats() -> None:
    lines = hipress("stats").splitlines()
    assert lines[0].split() == ["codec", "logic", "functions", "total", "operators", "integration"]
    assert [line.split()[0] for line in lines[1:]] == BUILTIN


def test_the_command_starts_without_the_compiler() -> None:
    code = "import sys, hipress.cli.main; print([m for m in ('lark', 'numpy', 'hipress.compll') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
