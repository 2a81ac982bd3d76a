# SPDX-License-Identifier: Apache-2.0
"""`make test-versions` tries every pair that a machine can have, and fails if one does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from distribution import torch_versions
from distribution.torch_versions import PYTHONS, TORCHES, Failed, LeftOut, Result, TimeOver, results_of, succeeded
from tests.architecture.files import ROOT


def _test(python: str, torch: str, _end: float) -> tuple[str, str]:
    if python == "3.12":
        raise LeftOut("no Python 3.12")
    if torch == "2.11":
        raise Failed("3 failed, 353 passed")
    return f"{torch}.1", "356 passed"


def test_a_failure_does_not_end_the_others_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    results = results_of([("3.11", "2.11"), ("3.12", "2.13"), ("3.13", "2.13")], _test)
    assert [each.state for each in results] == ["failed", "left out", "passed"]
    assert [each.torch for each in results] == ["2.11", "2.13", "2.13.1"]
    assert not succeeded(results)
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[-2].strip() for row in rows] == ["3 failed, 353 passed", "no Python 3.12", "356 passed"]


def test_pairs_that_a_machine_cannot_have_are_no_failure_if_another_one_ran() -> None:
    assert succeeded(results_of([("3.12", "2.13"), ("3.13", "2.13")], _test))
    assert not succeeded(results_of([("3.12", "2.13")], _test))
    assert not succeeded([])


def test_a_command_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch_versions, "SECONDS", 0.0)
    with pytest.raises(TimeOver, match="0 minutes were over in: sleep 60"):
        torch_versions._run(["sleep", "60"], 0.0, tmp_path / "log")


def test_an_environment_that_is_not_made_in_time_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def late(command: list[str], *_: object) -> str:
        raise TimeOver("25 minutes were over")

    def refused(command: list[str], *_: object) -> str:
        raise Failed("no such torch")

    monkeypatch.setattr(torch_versions, "KEPT", tmp_path)
    for run, error in ((late, TimeOver), (refused, LeftOut)):
        monkeypatch.setattr(torch_versions, "_run", run)
        with pytest.raises(error):
            torch_versions._environment("3.11", "9.9", 0.0, tmp_path / "log")


def test_a_command_that_fails_tells_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_versions, "ROOT", tmp_path)
    with pytest.raises(Failed, match=r"^no such torch \(see log\)$"):
        torch_versions._run(
            ["sh", "-c", "echo first; echo no such torch; exit 1"], time.monotonic() + 60, tmp_path / "log"
        )
    assert "first\nno such torch" in (tmp_path / "log").read_text()


def test_the_tests_that_it_names_exist() -> None:
    for each in torch_versions.WITH_PROCESSES:
        file, _, name = each.partition("::")
        assert (ROOT / file).exists()
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_a_row_has_the_versions() -> None:
    row = torch_versions._row(Result("3.11", "2.14.1+cu130", "passed", "356 passed", 26.4))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "3.11",
        "2.14.1+cu130",
        "passed",
        "26 s",
        "356 passed",
    ]


def test_the_pairs_are_those_of_the_guide() -> None:
    page = (ROOT / "docs" / "guide" / "installing.md").read_text()
    assert (
        f"torch {', '.join(TORCHES[:-1])} and {TORCHES[-1]} with Python {', '.join(PYTHONS[:-1])} and {PYTHONS[-1]}"
        in page
    )
