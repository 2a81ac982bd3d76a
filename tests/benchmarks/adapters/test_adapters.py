# SPDX-License-Identifier: Apache-2.0
"""benchmarks/adapters.py measures the chosen frameworks, and they take turns. Only torch runs here."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.adapters import command as adapters
from benchmarks.adapters import turns as adapter_turns
from benchmarks.harness import averaging_rows as sync_rows
from benchmarks.harness import framework_environment

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
@pytest.mark.thorough
def test_a_framework_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("--framework", "torch", "--world", "2", "--repeat", "2", "--json", str(file))
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "adapters.py"), *words], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    assert tuple(row) == sync_rows.COLUMNS
    assert (row["system"], row["codec"], row["topology"]) == ("hipress.torch", "onebit", "ps")
    assert (row["world"], row["model"], row["repeats"], row["speedup_ratio"]) == (2, "resnet50", 2, 1)
    assert 0 < row["time_min_s"] <= row["time_s"] <= row["time_max_s"]
    # Compressed gradients take a bit per element; small gradients travel raw.
    assert 1 / 32 < row["bytes_sent"] / row["size_bytes"] < 1 / 28
    assert 0 < row["error"] < 0.95


def test_a_rank_that_fails_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("HIPRESS_PARTITION_BYTES", "none")
    monkeypatch.setattr(sys, "argv", ["adapters.py", "--framework", "torch", "--world", "2"])
    assert adapters.main() == 1
    said = capfd.readouterr().err
    assert "HIPRESS_PARTITION_BYTES" in said
    assert "adapters.py: a rank failed (exit code 1)" in said


def test_a_framework_without_an_environment_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def python(framework: str) -> Path:
        raise framework_environment.EnvironmentFailed("no room for it")

    monkeypatch.setattr(framework_environment, "python", python)
    file = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["adapters.py", "--framework", "tensorflow", "--json", str(file)])
    assert adapters.main() == 3
    assert "hipress.tensorflow was not measured: no room for it" in capsys.readouterr().err
    (row,) = json.loads(file.read_text())
    assert (row["system"], row["time_s"], row["unavailable"]) == ("hipress.tensorflow", None, "no room for it")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--framework", "jax"), "framework 'jax' does not exist; the frameworks are torch, tensorflow, mxnet"),
        (("--framework", ""), "--framework needs at least one"),
        (("--codec", "none,onebit"), "take one each"),
        (("--codec", "onebyte"), "codec 'onebyte' does not exist"),
        (("--nodes", "0"), "must be at least 1"),
        (("--timeout", "0"), "--timeout must be more than 0"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["adapters.py", *arguments])
    with pytest.raises(SystemExit):
        adapters.main()
    assert complaint in capsys.readouterr().err


class FakeRank(threading.Thread):
    """Answers as a rank does, and records the framework of each turn; ends after `turns` turns."""

    def __init__(self, path: str, framework: str, rank: int, seen: list[str], turns: int = 1000) -> None:
        super().__init__()
        self._path, self._framework, self._rank = path, framework, rank
        self._seen, self._turns = seen, turns
        self.start()

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rw") as stream:
            connection.connect(self._path)
            print(json.dumps([self._framework, self._rank]), file=stream, flush=True)
            for number, line in enumerate(stream):
                if number == self._turns:
                    break
                if self._rank == 0:
                    self._seen.append(self._framework)
                samples = {"seconds": [self._rank + 1.0], "cpu_seconds": [0.5], "bytes_sent": [7], "link_bytes": [None]}
                print(json.dumps([samples, self._rank / 10 if line == "check\n" else None]), file=stream, flush=True)


def test_frameworks_take_turns() -> None:
    seen: list[str] = []
    with adapter_turns.Turns(["a", "b", "c"], ranks=2, repeats=4) as turns:
        ranks = [FakeRank(turns.path, framework, rank, seen) for framework in "cab" for rank in (1, 0)]
        for rank in ranks:
            rank.join()
        figures = turns.figures()
    assert "".join(seen[:3]) == "abc"
    # Each round has one repetition of every framework.
    turns = ["".join(seen[start : start + 3]) for start in range(3, len(seen), 3)]
    assert {"".join(sorted(one)) for one in turns} == {"abc"}
    assert turns[-4:] == ["abc", "bac", "cab", "acb"]
    for framework in "abc":
        assert figures[framework].error == 0.1
        assert [samples.seconds for samples in figures[framework].samples] == [[1.0] * 4, [2.0] * 4]


def test_a_rank_that_ends_ends_the_turns() -> None:
    with adapter_turns.Turns(["a"], ranks=2, repeats=4) as turns:
        ranks = [FakeRank(turns.path, "a", 0, []), FakeRank(turns.path, "a", 1, [], turns=2)]
        for rank in ranks:
            rank.join()
        with pytest.raises(EOFError, match="a rank of a has ended"):
            turns.figures()


def test_ranks_that_never_come_are_not_waited_for() -> None:
    with adapter_turns.Turns(["a"], ranks=2, repeats=4) as turns:
        pass
    with pytest.raises(OSError):  # noqa: PT011 -- whichever the closed socket raises
        turns.figures()


def test_an_environment_is_made_when_its_requirements_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []

    def run(framework: str, *command: str | Path) -> None:
        commands.append(" ".join(map(str, command)))

    monkeypatch.setattr(framework_environment, "HERE", tmp_path)
    monkeypatch.setattr(framework_environment, "_run", run)
    monkeypatch.setattr(framework_environment, "_check", lambda framework, interpreter: None)
    interpreter = framework_environment.python("mxnet")
    assert interpreter == tmp_path / "mxnet" / "bin" / "python"
    assert len(commands) == 2
    assert commands[-1].endswith("requirements/mxnet.txt")
    framework_environment.python("mxnet")
    assert len(commands) == 2
    (tmp_path / "mxnet" / "requirements.txt").write_text("mxnet==1.9.0\n")
    framework_environment.python("mxnet")
    assert len(commands) == 4


def test_an_environment_in_which_the_adapter_cannot_be_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_environment, "HERE", tmp_path)
    monkeypatch.setattr(framework_environment, "_make", lambda framework: None)
    # Every Python without the framework would do.
    interpreter = tmp_path / "mxnet" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    with pytest.raises(framework_environment.EnvironmentFailed, match=r"hipress\.mxnet cannot be imported there: "):
        framework_environment.python("mxnet")


def test_torch_is_the_one_that_is_here() -> None:
    assert framework_environment.python("torch") == Path(sys.executable)
    assert framework_environment.variables("torch") == {}
