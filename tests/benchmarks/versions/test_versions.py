# SPDX-License-Identifier: Apache-2.0
"""benchmarks/versions.py: the jobs of two versions take turns; here both jobs use the installed version."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.versions import command

HERE = Path(sys.executable).parents[1]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["versions.py", *arguments])
    return command.main()


@pytest.mark.slow
@pytest.mark.thorough
def test_two_versions_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"
    chosen = ["--size", "800,12K", "--codec", "onebit", "--tensors", "3", "--repeats", "5", "--turns", "4"]
    assert run(monkeypatch, str(HERE), str(HERE), *chosen, "--json", str(file)) == 0
    rows = json.loads(file.read_text())
    assert [(row["size_bytes"], row["tensors"], row["codec"], row["turns"]) for row in rows] == [
        (800, 3, "onebit", 4),
        (12000, 3, "onebit", 4),
    ]
    for row in rows:
        for column in ("old_us", "new_us", "wall_ratio", "old_cpu_us", "new_cpu_us", "cpu_ratio"):
            assert row[column] > 0


def test_ratios_are_of_turns() -> None:
    turns = [((1.0, 4.0), (2.0, 2.0)), ((10.0, 4.0), (10.0, 2.0)), ((1.0, 4.0), (3.0, 2.0))]
    row = command.row_of(turns)
    assert (row["old_us"], row["new_us"], row["wall_ratio"]) == (1e6, 3e6, 2.0)
    assert (row["old_cpu_us"], row["new_cpu_us"], row["cpu_ratio"]) == (4e6, 2e6, 0.5)


def test_an_environment_without_hipress_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, str(tmp_path), str(HERE)) == 1
    assert f"{tmp_path} has no version of HiPress" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [("--turns", "0"), ("--size", "many"), ("--repeats", "-1")])
def test_wrong_arguments_are_refused(wrong: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, str(HERE), str(HERE), "=".join(wrong))
