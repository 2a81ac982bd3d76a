# SPDX-License-Identifier: Apache-2.0
"""All scripts that benchmarks/regenerate.py runs and all results that the plots draw exist."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import regenerate
from benchmarks.ablation import command as ablation
from benchmarks.adapters import command as adapters
from benchmarks.adapters import cost as adapter_cost
from benchmarks.calls import command as calls
from benchmarks.checkpoints import command as checkpoints
from benchmarks.checkpoints import cost as checkpoint_cost
from benchmarks.convergence import command as convergence
from benchmarks.diloco import command as diloco
from benchmarks.fsdp import command as fsdp
from benchmarks.harm import command as harm
from benchmarks.harm import cost as harm_cost
from benchmarks.harness import averaging_rows as sync_rows
from benchmarks.members import command as members
from benchmarks.optimizers import command as optimizers
from benchmarks.planning import command as planning
from benchmarks.sets import command as sets
from benchmarks.start import command as start
from benchmarks.sync import arguments as sync_arguments
from benchmarks.sync import job as sync_job
from benchmarks.sync import plot as sync_plot
from benchmarks.training import accuracy, precision_lab
from benchmarks.training import command as training

#: Commands whose command lines can be checked without running them.
COMMANDS: dict[str, Any] = {
    "ablation.py": ablation,
    "accuracy.py": accuracy,
    "adapter_cost.py": adapter_cost,
    "adapters.py": adapters,
    "calls.py": calls,
    "checkpoint_cost.py": checkpoint_cost,
    "checkpoints.py": checkpoints,
    "convergence.py": convergence,
    "diloco.py": diloco,
    "fsdp": fsdp,
    "members": members,
    "optimizers.py": optimizers,
    "planning.py": planning,
    "precision_lab.py": precision_lab,
    "sets": sets,
    "harm": harm,
    "harm/cost.py": harm_cost,
    "start": start,
    "train.py": training,
}
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", [*regenerate.RESULTS, *regenerate.GPU_RESULTS])
def test_every_command_line_is_right(name: str) -> None:
    script, *words = {**regenerate.RESULTS, **regenerate.GPU_RESULTS}[name]
    assert (BENCHMARKS / script).exists()
    if script == "sync.py":
        parser = sync_arguments.arguments("")
        given = parser.parse_args(words)
        sync_arguments.check(parser, given)
        # Beside PowerSGD with VGG-19 on four ranks, the memory of a small machine holds only few other systems.
        assert (given.model, given.nodes) != ("vgg19", 4) or "powersgd" not in given.peer or len(given.peer) <= 3
    elif script in COMMANDS:
        COMMANDS[script].arguments().parse_args(words)


def test_plots_are_of_results_that_are_made() -> None:
    for script, results in regenerate.PLOTS.values():
        assert (BENCHMARKS / script).exists()
        assert set(results) <= set(regenerate.RESULTS)


def test_one_that_fails_does_not_keep_the_others_from_being_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = {"first": ("codec.py", "--nonsense"), "second": ("codec.py", "--size", "4K", "--no-torch")}
    monkeypatch.setattr(regenerate, "RESULTS", results)
    monkeypatch.setattr(regenerate, "PLOTS", {})
    monkeypatch.setattr(regenerate, "RESULTS_FOLDER", tmp_path)
    updated: list[None] = []
    monkeypatch.setattr(regenerate, "_update_pages", lambda: updated.append(None))
    monkeypatch.setattr(sys, "argv", ["regenerate.py"])
    assert regenerate.main() == 1
    assert not (tmp_path / "first.json").exists()
    assert (tmp_path / "second.json").exists()
    assert updated
    said = capsys.readouterr()
    assert "second: " in said.out
    assert "failed: first" in said.err


def test_when_the_time_is_over_nothing_more_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []
    clock = [0.0]
    monkeypatch.setattr(regenerate.time, "monotonic", lambda: clock[0])

    def measure(name: str) -> bool:
        begun.append(name)
        clock[0] += 50.0
        return True

    monkeypatch.setattr(regenerate, "RESULTS", dict.fromkeys(("first", "second", "third"), ()))
    monkeypatch.setattr(regenerate, "PLOTS", {})
    monkeypatch.setattr(regenerate, "_measure", measure)
    monkeypatch.setattr(regenerate, "_update_pages", lambda: None)
    monkeypatch.setattr(sys, "argv", ["regenerate.py", "--minutes", "1"])
    assert regenerate.main() == 0
    assert begun == ["first", "second"]
    assert "third left out" in capsys.readouterr().err


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["regenerate.py", "nothing like it"])
    assert regenerate.main() == 2
    assert "sync-4-1gbit-vgg19-onebit" in capsys.readouterr().err


def rows(model: str, rate: str = "1gbit") -> list[dict[str, object]]:
    setting = sync_rows.Setting(model, 10**8, 2, 1, rate, "all", 0.0, 2)
    systems = (("hipress onebit", "ps", 0.5), ("hipress onebit", "ring", 0.25), ("gloo-fp32", None, 2.0))
    measured = [
        sync_job.Measured(system, "", topology, 0.0, [sync_job.Samples([time_s], [0.1], [None], [10**6])])
        for system, topology, time_s in systems
    ]
    made = [sync_rows.row(one, setting, 2.0) for one in measured]
    return [*sync_rows.with_best(made, {}), sync_rows.unavailable_row("horovod", setting, "no compiler")]


def test_a_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / f"{model}.json") for model in ("vgg19", "gpt2")]
    for file, model in zip(files, ("vgg19", "gpt2"), strict=True):
        Path(file).write_text(json.dumps(rows(model)))
    output = tmp_path / "plot.svg"
    monkeypatch.setattr(sys, "argv", ["sync_plot.py", *files, "--output", str(output)])
    assert sync_plot.main() == 0
    drawn = output.read_text()
    for text in ("vgg19", "gpt2", "hipress onebit (ring)", "gloo-fp32", "2 nodes, links: 1gbit"):
        assert f"<!-- {text}" in drawn or text in drawn
    assert "horovod" not in drawn
    Path(files[1]).write_text(json.dumps(rows("gpt2", "5gbit")))
    assert sync_plot.main() == 1
    assert "one plot shows one setting; these have 2" in capsys.readouterr().err
