# SPDX-License-Identifier: Apache-2.0
"""benchmarks/convergence.py trains on real ranks, goes on where it ended, and refuses what it does not know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.convergence import command
from benchmarks.convergence.job import JUDGED
from tests.tiers import thorough

ROOT = Path(__file__).parents[3]
#: Of the third its class is trained, too: "powersgd(rank=4)".
_METHODS = ["bf16", "int8", "torch-powersgd(rank=1)"]


def _run(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(ROOT / "benchmarks" / "convergence.py"), "--json", str(file), "--steps", "20"]
    once = ["--no-sweep", "--seeds", "1", "--baseline-seeds", "1", "--pair", "digits-cnn/momentum"]
    return subprocess.run([*script, *once, *more], check=True, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("methods", "more"), [(_METHODS[:2], []), thorough(_METHODS, ["powersgd(rank=4)"])], ids=["two", "three"]
)
def test_a_small_grid_is_trained_once(methods: list[str], more: list[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    _run(file, "--method", ",".join(methods))
    rows: list[dict[str, Any]] = json.loads(file.read_text())
    assert sorted(row["method"] for row in rows) == sorted([*methods, *more])
    by_method = {row["method"]: row for row in rows}
    for row in rows:
        assert len(row["losses"]) == JUDGED + 1
        assert row["losses"][0] == by_method["bf16"]["losses"][0]  # the same first weights
        assert row["losses"][-1] < row["losses"][0]
        assert (row["steps"], row["ranks"]) == (20, 4)
    assert by_method["int8"]["losses"] == pytest.approx(by_method["bf16"]["losses"], abs=0.02)
    assert by_method["int8"]["bytes"] < by_method["bf16"]["bytes"]
    assert 0 < by_method["bf16"]["vnmse"] < by_method["int8"]["vnmse"] < 0.01
    written = file.read_bytes()
    assert _run(file, "--method", "int8", "--list").stdout == ""
    _run(file, "--method", "int8")
    assert file.read_bytes() == written


@pytest.mark.slow
def test_a_codec_of_ones_own_gets_its_verdict(tmp_path: Path) -> None:
    codec = "tests.torch.python_codecs.codecs:PyInt8"
    shown = _run(tmp_path / "rows.json", "--codec", codec).stdout
    assert f"{codec}, digits-cnn, momentum: loss " in shown
    assert "(1 trainings): not proved" in shown
    by_method = {row["method"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert by_method.keys() == {"bf16", codec}
    assert by_method[codec]["losses"] == pytest.approx(by_method["bf16"]["losses"], abs=0.02)
    assert by_method[codec]["bytes"] < 0.6 * by_method["bf16"]["bytes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "int9"], "no method 'int9'; there are bf16, int8"),
        (["--pair", "digits-cnn/lamb"], "digits-cnn/lamb"),
        (["--steps", "40"], "another file of results"),
        (["--steps", "3", "--json", "rows.json"], "at least 20"),
        (["--codec", "no_module:Codec"], "no_module:Codec is not there"),
        (["--codec", "int8"], "another file of results"),
    ],
)
def test_what_the_suite_does_not_have_is_refused(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["convergence.py", *words])
    with pytest.raises(SystemExit):
        command.main()
    assert said in capsys.readouterr().err
