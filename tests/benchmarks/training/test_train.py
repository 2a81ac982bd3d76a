# SPDX-License-Identifier: Apache-2.0
"""benchmarks/train.py measures the chosen systems, and names the systems that it cannot measure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness import framework_environment, horovod_environment, rank_jobs
from benchmarks.training import command as train
from benchmarks.training import job as train_job
from benchmarks.training import measure as train_measure

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
@pytest.mark.thorough
def test_systems_take_steps(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("--world", "2", "--batch-size", "1", "--steps", "1", "--peer", "ddp,hook-onebit")
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "train.py"), *words, "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    ours, ddp, hook = json.loads(file.read_text())
    assert (ours["system"], hook["system"], ddp["system"]) == ("hipress onebit ps", "hook-onebit", "ddp")
    assert tuple(ours) == tuple(hook) == tuple(ddp)
    for row in (ours, hook, ddp):
        assert (row["framework"], row["model"], row["ranks"], row["steps"]) == ("torch", "resnet50", 2, 1)
        assert (row["device"], row["group"], row["batch_size"]) == ("cpu", "gloo", 1)
        assert row["time_s"] > 0
        assert row["alone_s"] > 0
        assert row["unavailable"] is None
    assert ddp["speedup_ratio"] == 1
    # The gradients have 102 MB; the codec sends a bit per element.
    assert 3e6 < ours["bytes_sent"] < 4e6
    assert hook["bytes_sent"] is None
    assert ddp["bytes_sent"] is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--peer", "nccl"),
            "peer 'nccl' does not exist; the peers are ddp, ddp-fp16, ddp-bf16, hook-int8, hook-int8-ps,",
        ),
        (
            ("--peer", "dist-sync"),
            "dist-sync is no peer of --framework torch; its peers are ddp, ddp-fp16, ddp-bf16, hook-int8,",
        ),
        (("--framework", "mxnet", "--peer", "ddp"), "ddp is no peer of --framework mxnet"),
        (("--framework", "mxnet", "--model", "bert-base"), "--framework mxnet trains resnet50, not bert-base"),
        (("--framework", "tensorflow"), "invalid choice: 'tensorflow'"),
        (("--framework", "mxnet", "--device", "cuda"), "--device cuda is for --framework torch, not mxnet"),
        (("--steps", "0"), "must be at least 1"),
        (("--group", "nccl"), "--group nccl does not take tensors of --device cpu"),
        (("--device", "cuda", "--group", "gloo", "--peer", "ddp-bf16"), "ddp-bf16 needs --group nccl"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit):
        train.main()
    assert complaint in capsys.readouterr().err


def test_peers_that_cannot_be_measured_are_named_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_job(command: Any, network: Any, **options: Any) -> str:
        _, _, job = command(0, "")
        (system,) = train_job.Job.from_json(job).systems
        if system == "dist-sync-2bit":
            raise rank_jobs.RankFailed(7)
        return json.dumps([vars(train_job.Measured(system, "cpu", [2.0, 4.0], [1.0, 1.0], [0.5, 0.5], None))])

    def no_horovod(framework: str) -> Path:
        raise horovod_environment.BuildFailed("no compiler")

    monkeypatch.setattr(train, "run_job", run_job)
    monkeypatch.setattr(framework_environment, "python", lambda framework: Path("python"))
    monkeypatch.setattr(framework_environment, "variables", lambda framework: {})
    monkeypatch.setattr(horovod_environment, "python", no_horovod)
    file = tmp_path / "rows.json"
    peers = "dist-sync,dist-sync-2bit,horovod"
    words = ["--framework", "mxnet", "--codec", "onebit", "--peer", peers, "--json", str(file)]
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    assert train.main() == 3
    rows = {row["system"]: row for row in json.loads(file.read_text())}
    assert list(rows) == ["hipress onebit ps", "dist-sync", "dist-sync-2bit", "horovod"]
    assert len({tuple(row) for row in rows.values()}) == 1
    assert rows["hipress onebit ps"]["speedup_ratio"] == rows["dist-sync"]["speedup_ratio"] == 1
    assert rows["dist-sync"]["time_alone_ratio"] == 3
    assert rows["dist-sync"]["batch_size"] == 3, "the model's own value, because no value was given"
    assert rows["horovod"]["time_s"] is None
    assert rows["horovod"]["unavailable"] == "no compiler"
    assert "exit code 7" in rows["dist-sync-2bit"]["unavailable"]
    said = capsys.readouterr().err
    assert "train.py: horovod was not measured: no compiler" in said
    assert "train.py: dist-sync-2bit was not measured: a rank failed (exit code 7)" in said


def test_ours_failing_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_job(command: Any, network: Any, **options: Any) -> str:
        raise rank_jobs.RankFailed(7)

    monkeypatch.setattr(train, "run_job", run_job)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert train.main() == 7


class Alone:
    """The rendezvous of rank 0 with an imaginary rank 1. Rank 1 gives rank 0's own answer, but `theirs` where bytes are
    asked for."""

    rank, world = 0, 2

    def __init__(self, theirs: bytes | None = None) -> None:
        self._theirs = theirs

    def gather(self, mine: Any) -> list[Any]:
        return [mine, self._theirs if self._theirs and isinstance(mine, bytes) else mine]

    def barrier(self) -> None: ...


JOB = train_job.Job("resnet50", "cpu", "gloo", 1, ["x"], 3, 1.0, "", 0, "")


def test_steps_take_turns_with_computing_alone() -> None:
    taken: list[str] = []
    clock = iter(range(100))
    trial = train_measure.Trial(
        step=lambda: taken.append("step"),
        alone=lambda: taken.append("alone"),
        parameters=lambda: [np.zeros(3)],
        cpu_seconds=lambda: float(next(clock)),
        bytes_sent=lambda: 10 * len(taken),
    )
    measured = train_measure.measure(JOB, "x", trial, Alone())
    assert taken == ["alone", "step"] * (train_measure.WARM_UPS + 3)
    assert (len(measured.seconds), len(measured.alone_seconds)) == (3, 3)
    # The processor time covers the steps only. The bytes of both kinds of steps are divided by the number of steps.
    assert measured.cpu_seconds == [1.0] * 3
    assert measured.bytes_sent == 20


def test_a_system_that_does_not_combine_gradients_is_refused() -> None:
    trial = train_measure.Trial(step=lambda: None, alone=lambda: None, parameters=lambda: [np.ones(3)])
    with pytest.raises(RuntimeError, match="x: the ranks' parameters differ"):
        train_measure.measure(JOB, "x", trial, Alone(b"another digest"))
