# SPDX-License-Identifier: Apache-2.0
"""benchmarks/ablation.py switches off the parts that it names, and computes its figures as documented; no test checks a
gain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import models
from benchmarks.ablation import command as ablation
from benchmarks.ablation import job as ablation_job
from benchmarks.ablation import plot as ablation_plot
from benchmarks.ablation import rows as ablation_rows
from benchmarks.ablation import variants as ablation_variants
from benchmarks.harness import simulated_training
from hipress.runtime import RuntimeOptions

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

SETTING = ablation_rows.Setting("gpt2", 10**9, "ps", 4, 4, "1gbit", None, "backward", 0.2, 0.1)


def settings(options: dict[str, object]) -> dict[str, dict[str, str]]:
    variants, _ = ablation_variants.variants_and_lines("onebit", options)
    return {variant.name: variant.settings for variant in variants}


def test_each_variant_switches_off_what_it_lacks() -> None:
    off = {"HIPRESS_PIPELINING": "0", "HIPRESS_BUNDLE_BYTES": "0", "HIPRESS_PRIORITIES": "0"}
    plain = settings({})
    assert plain["plain"] == plain["codec"] == off
    assert plain["everything"] == {}
    assert plain["without pipelining"] == {"HIPRESS_PIPELINING": "0"}
    assert plain["without bulk"] == {"HIPRESS_BUNDLE_BYTES": "0"}
    assert plain["without priorities"] == {"HIPRESS_PRIORITIES": "0"}
    assert plain["codec and pipelining"] == {**plain["without bulk"], **plain["without priorities"]}


def test_schedules_that_are_not_the_default_are_compared() -> None:
    off = settings({"rounds": False, "coordinator": "none"})
    assert off["without bulk"] == {"HIPRESS_BUNDLE_BYTES": "0", "HIPRESS_ROUNDS": "0"}
    assert off["with link rounds"] == {"HIPRESS_ROUNDS": "1"}
    assert off["link rounds by a coordinator"] == {"HIPRESS_ROUNDS": "1", "HIPRESS_COORDINATOR": "rank0"}
    on = settings({"rounds": True, "coordinator": "rank0"})
    assert on["without link rounds"] == {"HIPRESS_ROUNDS": "0"}
    assert "link rounds by a coordinator" not in on


def test_schedules_can_be_compared_alone_also_without_a_codec() -> None:
    variants, lines = ablation_variants.schedules_and_lines("none", {"rounds": False, "coordinator": "none"})
    assert [variant.name for variant in variants] == ["everything", "with link rounds", "link rounds by a coordinator"]
    assert {variant.codec for variant in variants} == {"none"}
    assert [(line.text, line.compared_with) for line in lines] == [
        ("the default", None),
        ("with link rounds", "everything"),
        ("link rounds by a coordinator", "everything"),
    ]


def test_the_switches_exist() -> None:
    options = vars(RuntimeOptions())
    for variant in settings(options).values():
        for name in variant:
            assert name.removeprefix("HIPRESS_").lower() in options


def test_every_line_is_of_variants_that_are_measured() -> None:
    variants, lines = ablation_variants.variants_and_lines("onebit", {"rounds": True, "coordinator": "none"})
    names = [variant.name for variant in variants]
    assert len(set(names)) == len(names)
    assert {line.variant for line in lines} == set(names)
    assert {line.compared_with for line in lines} - {None} <= set(names)


def gradients(*ready: float) -> Any:
    named = tuple(models.Gradient(f"g{index}", (1,), ready_s) for index, ready_s in enumerate(ready))
    return models.GradientSet("made up", named, max(ready), "invented")


def test_forward_takes_half_of_backward_layer_by_layer() -> None:
    # The last layer's gradient is ready after 2 s, the middle layer's 1 s later, and the first layer's 3 s after that.
    assert simulated_training.forward_seconds(gradients(6.0, 3.0, 2.0)) == [1.5, 0.5, 1.0]
    assert simulated_training.forward_seconds(simulated_training.scaled(gradients(6.0, 3.0, 2.0), 0.6)) == (
        pytest.approx([0.15, 0.05, 0.1])
    )


def test_a_layer_waits_for_its_own_gradient() -> None:
    forward = [1.0, 1.0, 1.0]
    assert simulated_training.step_end(10.0, [4.0, 5.0, 6.0], forward) == 13.0
    assert simulated_training.step_end(10.0, [4.0, 12.0, 12.5], forward) == 14.0
    assert simulated_training.step_end(0.0, [5.0, 5.0, 5.0], forward) == 8.0


def visit(number: int, *seconds: float) -> Any:
    count = len(seconds)
    return ablation_job.Visit(
        number, list(seconds), [1 + one for one in seconds], [0.5] * count, [9] * count, [2] * count, [0] * count
    )


def test_gains_are_of_pairs_within_a_round() -> None:
    variants, lines = ablation_variants.variants_and_lines("onebit", {})
    visits = {variant.name: [visit(0, 1.0), visit(1, 1.0), visit(2, 1.0)] for variant in variants}
    # In round 1 the machine was slow for both variants. The variant "plain" took part in round 0 only.
    visits["everything"] = [visit(0, 1.0, 1.0, 1.0), visit(1, 4.0), visit(2, 1.0)]
    visits["without bulk"] = [visit(0, 1.5, 1.5, 1.5), visit(1, 6.0), visit(2, 1.4)]
    visits["plain"] = [visit(0, 8.0)]
    rows = {row["variant"]: row for row in ablation_rows.rows(lines, variants, visits, SETTING)}
    assert rows["plain"]["time_gain_ratio"] is None
    assert rows["+ onebit"]["time_gain_ratio"] == 8.0
    bulk = rows["without bulk"]
    assert (bulk["time_gain_ratio"], bulk["time_s"], bulk["step_s"]) == (1.5, 1.5, 2.5)
    assert bulk["stall_s"] == pytest.approx(2.2)
    assert (bulk["rounds"], bulk["repeats"], bulk["settings"]) == (3, 5, "HIPRESS_BUNDLE_BYTES=0")


def test_answers_and_jobs_travel_as_json() -> None:
    visits = {"plain": [visit(0, 1.0), visit(1, 2.0)]}
    assert ablation_job.visits_from_json(ablation_job.visits_to_json(visits)) == visits
    variants, _ = ablation_variants.variants_and_lines("onebit", {})
    job = ablation_job.Job("gpt2", "all", 0.2, variants, "ps", 1.0, 0, 1.0, 0, "")
    assert ablation_job.Job.from_json(job.to_json()) == job
    assert job.forward_start == 0.0


@pytest.mark.slow
@pytest.mark.thorough
def test_it_runs_and_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"
    options = ("--world", "2", "--model", "resnet50", "--release", "all", "--turns", "1", "--json", str(file))
    command = [sys.executable, str(BENCHMARKS / "ablation.py"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [row["variant"] for row in rows[:5]] == [
        *("plain", "+ onebit", "+ pipelining", "+ bulk", "+ priorities: everything")
    ]
    for row in rows:
        assert 0 < row["time_s"] <= row["step_s"]
        assert row["messages"] > 100
        assert row["variant"] in done.stdout
    output = tmp_path / "plot.svg"
    monkeypatch.setattr(sys, "argv", ["ablation_plot.py", str(file), "--output", str(output)])
    assert ablation_plot.main() == 0
    assert "without pipelining" in output.read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--codec", "none"), "what a codec gains"),
        (("--port-limit", "131072"), "needs the switch of a cluster"),
        (("--codec", "onebyte"), "codec 'onebyte' does not exist"),
        (("--topology", "star"), "there is no topology 'star'"),
        (("--nodes", "0"), "must be at least 1"),
        (("--backward-s", "0"), "must be more than 0"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ablation.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        ablation.main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
