# SPDX-License-Identifier: Apache-2.0
"""benchmarks/sync.py's figures, from samples that are known."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sync_job = importlib.import_module("sync_job")
sync_rows = importlib.import_module("sync_rows")
sync_release = importlib.import_module("sync_release")
models = importlib.import_module("models")

SETTING = sync_rows.Setting("gpt2", 10**9, 2, 1, "1gbit", "all", 0.5)


def measured(system: str, topology: str | None, seconds: float, link: int | None = None) -> Any:
    sent = None if topology is None else 100
    samples = [
        sync_job.Samples([seconds, seconds + 1, seconds + 2], [0.5] * 3, [sent] * 3, [link] * 3),
        sync_job.Samples(
            [seconds + 4, seconds, seconds], [1.5] * 3, [sent] * 3, [None if link is None else 2 * link] * 3
        ),
    ]
    return sync_job.Measured(system, "onebit", topology, 0.25, samples)


def test_a_row() -> None:
    row = sync_rows.row(measured("hipress onebit", "ps", 2.0, 10**9), SETTING, 6.0)
    assert tuple(row) == sync_rows.COLUMNS
    # Of each repetition the slower rank's: 6, 3, 4.
    assert (row["time_s"], row["time_min_s"], row["time_max_s"], row["repeats"]) == (4.0, 3.0, 6.0, 3)
    assert row["speedup_ratio"] == 1.5
    assert (row["algbw_gbps"], row["busbw_gbps"], row["effective_gbitps"]) == (0.25, 0.25, 2.0)
    assert (row["bytes_sent"], row["cpu_s"], row["error"]) == (100, 1.0, 0.25)
    # The busier node's 2 GB, at 1 Gbit/s of which 95.6 % are payload.
    assert row["link_bytes"] == 2 * 10**9
    assert row["link_limit_s"] == pytest.approx(16 / 0.9564, rel=1e-4)
    assert (row["model"], row["nodes"], row["ranks_per_node"], row["world"], row["rate"]) == ("gpt2", 2, 1, 2, "1gbit")
    assert row["unavailable"] is None


def test_what_does_not_apply_is_null() -> None:
    row = sync_rows.row(measured("gloo-fp32", None, 2.0), SETTING, None)
    assert [row[name] for name in ("speedup_ratio", "bytes_sent", "link_bytes", "link_limit_s", "backward_s")] == [
        None
    ] * 5


def test_the_fastest_topology_of_each_codec_is_repeated() -> None:
    each = [
        sync_rows.row(measured(system, topology, seconds), SETTING, None)
        for system, topology, seconds in (
            ("hipress onebit", "ps", 3.0),
            ("hipress onebit", "ring", 2.0),
            ("gloo", None, 1.0),
        )
    ]
    rows = sync_rows.with_best(each)
    assert [(row["system"], row["topology"]) for row in rows] == [
        ("hipress onebit", "ps"),
        ("hipress onebit", "ring"),
        ("best", "ring"),
        ("gloo", None),
    ]
    # Also of one: whoever reads the file finds the row whatever the installed core offers.
    assert [row["system"] for row in sync_rows.with_best(each[:1])] == ["hipress onebit", "best"]


def test_a_system_that_was_not_measured_has_no_figures() -> None:
    row = sync_rows.unavailable_row("horovod", SETTING, "no compiler")
    assert tuple(row) == sync_rows.COLUMNS
    assert (row["system"], row["unavailable"], row["rate"]) == ("horovod", "no compiler", "1gbit")
    assert row["time_s"] is row["speedup_ratio"] is row["error"] is None


def test_answers_travel_as_json() -> None:
    answer = [measured("hipress onebit", "ps", 2.0, 7), measured("gloo-fp32", None, 3.0)]
    assert sync_job.measured_from_json(sync_job.measured_to_json(answer)) == answer


def gradients(*ready: float) -> Any:
    named = tuple(models.Gradient(f"g{index}", (1,), ready_s) for index, ready_s in enumerate(ready))
    return models.GradientSet("made up", named, max(ready), "invented")


def test_all_at_once_the_last_comes_first() -> None:
    release = sync_release.Release(gradients(0.3, 0.2, 0.1, 60.0), "all")
    assert list(release.gradients()) == [3, 2, 1, 0]


def test_backward_releases_at_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(sync_release.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(sync_release.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    release = sync_release.Release(gradients(0.5, 0.1, 0.25, 0.1), "backward")
    assert [(index, round(clock[0] - 100, 6)) for index in release.gradients()] == [
        (3, 0.1),
        (1, 0.1),
        (2, 0.25),
        (0, 0.5),
    ]
