# SPDX-License-Identifier: Apache-2.0
"""benchmarks/planning.py compares the plans that it names; no test checks how good a prediction is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cluster
from benchmarks.planning import command as planning
from benchmarks.planning import job as planning_job
from benchmarks.planning import rows as planning_rows
from hipress.secopa.models.registry import make_model
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.plan import Decision, Plan
from tests.secopa.profiles import profile

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

SETTING = planning_rows.Setting(4, 1, "1gbit", 4)


def job(*arguments: str) -> Any:
    given = planning.arguments().parse_args(["--model", "resnet50", *arguments])
    return planning.job_of(given)


def samples(*turns: list[float]) -> Any:
    """The samples of two ranks; the second rank is slower by a tenth."""
    seconds = [one for times in turns for one in times]
    counts = [len(times) for times in turns]
    return [
        planning_job.Samples([factor * one for one in seconds], [0.1] * len(seconds), [1000] * len(seconds), counts)
        for factor in (1.0, 1.1)
    ]


def measured(codec: str, *turns: list[float], topology: str = "ps") -> Any:
    return planning_job.Measured(codec, topology, 0, None, samples(*turns))


def plan(asked: Any, codec: str) -> Plan:
    decisions = (
        Decision(name=one.name, elements=one.elements, codec=codec, topology="ps", partitions=4)
        for one in asked.planned_gradients.gradients
    )
    return Plan(made_by="a test", world=4, topology="ps", decisions=tuple(decisions))


def test_the_grid_is_every_codec_with_every_topology_and_partitions() -> None:
    asked = job("--codec", "onebit,dgc(ratio=0.01,momentum=0)", "--partitions", "0,8")
    assert [one for one in asked.grid if one[0] == "none"] == [
        ("none", topology, partitions) for topology in ("ps", "ring") for partitions in (0, 8)
    ]
    assert len(asked.grid) == 2 * (2 + 3 + 3)
    assert asked.planned == [["onebit"], ["dgc(ratio=0.01,momentum=0)"], ["onebit", "dgc(ratio=0.01,momentum=0)"]]
    assert set(asked.topologies) == {"ps", "ring", "allgather"}
    assert planning_job.Job.from_json(asked.to_json()) == asked


def test_small_gradients_travel_as_they_are_in_uniform_runs() -> None:
    choices = job().uniform_choices("onebit", "ring", 8)
    gradients = job().planned_gradients.gradients
    for gradient, choice in zip(gradients, choices, strict=True):
        assert choice == Choice("onebit" if gradient.bytes >= 4096 else "none", "ring", 8)
    assert {choice.codec for choice in choices} == {"onebit", "none"}


def test_gradients_come_at_once_or_as_backward_has_them() -> None:
    assert set(job().planned_gradients.releases_s()) == {0.0}
    late = job("--release", "backward").planned_gradients
    assert late.backward_s > 0
    assert max(late.releases_s()) > min(late.releases_s()) > 0


def test_rows_compare_with_the_prediction_and_plans_with_the_best() -> None:
    asked = job("--codec", "onebit")
    costs = profile()
    plain, ring, onebit = (
        measured("none", [1.0, 3.0, 2.0]),
        measured("none", [2.5, 2.5, 2.5], topology="ring"),
        measured("onebit", [1.0, 1.0, 1.0]),
    )
    pair = planning_job.Pair(samples([1.3, 1.2, 1.4], [2.4]), samples([1.0], [2.0, 2.0]))
    planned = planning_job.Measured("onebit", None, None, plan(asked, "onebit").to_json(), samples([1.2]), pair)
    answer = planning_job.Answer([costs.to_json()], [plain, ring, onebit, planned], [0.5])
    assert planning_job.Answer.from_json(answer.to_json()) == answer
    rows = planning_rows.rows_of(answer, asked, SETTING)
    assert [row["time_s"] for row in rows] == pytest.approx([2.2, 2.75, 1.1, 1.32])
    model = make_model("timeline", costs, 4)
    expected = model.step(asked.planned_gradients, asked.uniform_choices("none", "ps", 0))
    assert rows[0]["predicted_s"] == expected.step_s
    assert rows[0]["predicted_share"] == pytest.approx(expected.step_s / 2.2)
    # The gradients have 102 MB; each of four ranks sends 2·3/4 of it.
    assert rows[0]["predicted_bytes"] == pytest.approx(1.5 * asked.planned_gradients.bytes, rel=0.01)
    assert (rows[0]["best_share"], rows[0]["compressed"], rows[0]["planning_s"]) == (None, 0, None)
    # The median of turns in which the step took 1.3 and 1.2 times as long.
    assert rows[3]["best_share"] == pytest.approx(1.25)
    assert rows[3]["uncompressed_share"] == pytest.approx(1.32 / 2.2)
    assert rows[3]["compressed"] == len(asked.planned_gradients.gradients)
    said = planning_rows.summary(rows)
    assert "plans take 1.25 times as long as the best uniform run at most" in said


def test_a_plan_measured_in_turn_with_the_uncompressed_run_is_compared_with_that_in_these_turns() -> None:
    asked = job("--codec", "onebit")
    raw, onebit = measured("none", [1.0]), measured("onebit", [1.1])
    pair = planning_job.Pair(samples([1.0]), samples([1.0]))
    planned = planning_job.Measured("onebit", None, None, plan(asked, "onebit").to_json(), samples([1.2]), pair)
    answer = planning_job.Answer([profile().to_json()], [raw, onebit, planned], [0.5])
    row = planning_rows.rows_of(answer, asked, SETTING)[-1]
    assert row["uncompressed_share"] == row["best_share"] == 1.0


def test_each_turn_is_compared_with_the_profile_measured_before_it() -> None:
    asked = job("--codec", "onebit")
    profiles = [profile(bandwidth=rate) for rate in (1e9, 1e8, 1e7)]
    expected = [
        make_model("timeline", one, 4).step(asked.planned_gradients, asked.uniform_choices("none", "ps", 0)).step_s
        for one in profiles
    ]
    run = measured("none", [expected[0]], [expected[1] / 2], [expected[2]])
    answer = planning_job.Answer([one.to_json() for one in profiles], [run], [])
    row = planning_rows.rows_of(answer, asked, SETTING)[0]
    assert row["predicted_s"] == expected[1]
    assert row["predicted_share"] == pytest.approx(1 / 1.1)


def test_a_plan_is_paired_with_the_fastest_run_that_its_codecs_allow() -> None:
    runs = [measured("none", [2.0]), measured("tbq", [0.1]), measured("onebit", [3.0]), measured("dgc", [1.0])]
    assert planning_job.fastest_uniform("onebit", runs) == 0
    assert planning_job.fastest_uniform("onebit,dgc", runs) == 3


@pytest.mark.slow
@pytest.mark.thorough
def test_profile_plans_and_grid_are_measured_on_a_cluster(tmp_path: Path) -> None:
    try:
        cluster.check_available()
    except cluster.ClusterUnavailable as reason:
        pytest.skip(str(reason))
    command = [sys.executable, str(BENCHMARKS / "planning.py"), "--nodes", "2", "--rate", "1gbit", "--codec", "onebit"]
    fast = ["--topology", "ps", "--turns", "1", "--profile-seconds", "2", "--keep", str(tmp_path)]
    file = tmp_path / "rows.json"
    done = subprocess.run(
        [*command, *fast, "--json", str(file)], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [(row["system"], row["codec"]) for row in rows] == [
        ("uniform", "none"),
        ("uniform", "onebit"),
        ("plan", "onebit"),
    ]
    for row in rows:
        assert 0 < row["time_min_s"] <= row["time_s"] <= row["time_max_s"]
        assert row["predicted_s"] > 0
    # The ranks followed the plan: they sent the bytes that the model computes for it.
    assert rows[2]["bytes_sent"] == pytest.approx(rows[2]["predicted_bytes"], rel=0.02)
    assert rows[0]["bytes_sent"] == pytest.approx(rows[0]["predicted_bytes"], rel=0.02)
    assert Plan.read(tmp_path / "plan-onebit.json").world == 2
    assert "predicted times are" in done.stdout
