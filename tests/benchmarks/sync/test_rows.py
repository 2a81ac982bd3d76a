# SPDX-License-Identifier: Apache-2.0
"""The figures of benchmarks/sync.py, computed from known samples."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from benchmarks import models
from benchmarks.harness import averaging_rows as sync_rows
from benchmarks.harness import release as sync_release
from benchmarks.harness import topologies as sync_trials
from benchmarks.sync import job as sync_job

SETTING = sync_rows.Setting("gpt2", 10**9, 2, 1, "1gbit", "all", 0.5, 4)


def measured(system: str, topology: str | None, seconds: float, link: int | None = None) -> Any:
    sent = None if topology is None else 100
    samples = [
        sync_job.Samples([seconds, seconds + 1, seconds + 2], [0.5] * 3, [sent] * 3, [link] * 3),
        sync_job.Samples(
            [seconds + 4, seconds, seconds], [1.5] * 3, [sent] * 3, [None if link is None else 2 * link] * 3
        ),
    ]
    return sync_job.Measured(system, "onebit", topology, 0.25, samples, None if topology is None else 80.0)


def test_a_row() -> None:
    row = sync_rows.row(measured("hipress onebit", "ps", 2.0, 10**9), SETTING, 6.0)
    assert tuple(row) == sync_rows.COLUMNS
    # In each repetition the slower rank counts: 6, 3, 4.
    assert (row["time_s"], row["time_min_s"], row["time_max_s"], row["repeats"]) == (4.0, 3.0, 6.0, 3)
    assert row["speedup_ratio"] == 1.5
    assert (row["algbw_gbps"], row["busbw_gbps"], row["effective_gbitps"]) == (0.25, 0.25, 2.0)
    assert (row["bytes_sent"], row["cpu_s"], row["error"]) == (100, 1.0, 0.25)
    # The host that sent more bytes counts: 2 GB at 1 Gbit/s, of which 95.6 % is payload.
    assert row["link_bytes"] == 2 * 10**9
    assert row["link_limit_s"] == pytest.approx(16 / 0.9564, rel=1e-4)
    # Two ranks on four cores: the codec's time alone, and all processor time. The codec is the larger limit.
    assert (row["compute_limit_s"], row["cpu_limit_s"], row["limit_ratio"]) == (20.0, 0.5, 0.2)
    assert (row["model"], row["nodes"], row["ranks_per_node"], row["world"], row["rate"]) == ("gpt2", 2, 1, 2, "1gbit")
    assert row["unavailable"] is None


def test_what_does_not_apply_is_null() -> None:
    row = sync_rows.row(measured("gloo-fp32", None, 2.0), SETTING, None)
    absent = ("speedup_ratio", "bytes_sent", "link_bytes", "link_limit_s", "compute_limit_s", "limit_ratio", "trials")
    assert [row[name] for name in (*absent, "backward_s")] == [None] * 8


def test_the_fastest_topology_of_each_codec_is_repeated() -> None:
    each = [
        sync_rows.row(measured(system, topology, seconds), SETTING, None)
        for system, topology, seconds in (
            ("hipress onebit", "ps", 3.0),
            ("hipress onebit", "ring", 2.0),
            ("gloo", None, 1.0),
        )
    ]
    trials = {"onebit": {"ps": 3.1, "ring": 2.1, "allgather": 9.0}}
    rows = sync_rows.with_best(each, trials)
    assert [(row["system"], row["topology"]) for row in rows] == [
        ("hipress onebit", "ps"),
        ("hipress onebit", "ring"),
        ("best", "ring"),
        ("gloo", None),
    ]
    assert [row["trials"] for row in rows] == [None, None, trials["onebit"], None]
    # A single system also gets a row "best", so a reader of the file always finds that row.
    assert [row["system"] for row in sync_rows.with_best(each[:1], {})] == ["hipress onebit", "best"]


def test_a_system_that_was_not_measured_has_no_figures() -> None:
    row = sync_rows.unavailable_row("horovod", SETTING, "no compiler")
    assert tuple(row) == sync_rows.COLUMNS
    assert (row["system"], row["unavailable"], row["rate"]) == ("horovod", "no compiler", "1gbit")
    assert row["time_s"] is row["speedup_ratio"] is row["error"] is None


def test_answers_travel_as_json() -> None:
    both = [measured("hipress onebit", "ps", 2.0, 7), measured("gloo-fp32", None, 3.0)]
    answer = sync_job.Answer(both, {"onebit": {"ps": 2.0}})
    assert sync_job.Answer.from_json(answer.to_json()) == answer


@pytest.mark.parametrize(
    ("codec", "nodes", "ranks_per_node", "tried"),
    [
        ("none", 2, 1, ["ps", "allgather"]),
        ("none", 4, 1, ["ps", "ring"]),
        ("onebit", 4, 1, ["ps", "ring", "allgather"]),
        ("onebit", 4, 2, ["ps", "ring", "allgather", "hierarchical", "hierarchical(ring)"]),
        ("onebit", 1, 4, ["ps", "ring", "allgather"]),
        ("onebit", 1, 1, ["ps"]),
    ],
)
def test_what_cannot_win_is_not_tried(codec: str, nodes: int, ranks_per_node: int, tried: list[str]) -> None:
    assert sync_trials.candidates(codec, nodes, ranks_per_node) == tried


def test_only_the_fastest_are_measured() -> None:
    assert sync_trials.promising({"ps": 0.2, "ring": 0.1, "allgather": 0.12}) == ["ring"]
    assert sync_trials.promising({"ps": 0.109, "ring": 0.1, "allgather": 0.105}) == ["ring", "allgather"]
    assert sync_trials.promising({"ps": 7.2, "ring": 7.1}) == ["ring"]


def test_the_codec_works_alone_as_often_as_the_graphs_say() -> None:
    work = importlib.import_module("benchmarks.harness.codec_work")
    small = models.Gradient("bias", (10,), 0.0)
    tensors = models.GradientSet("made up", (models.Gradient("weight", (10**6,), 0.0), small))
    speed = work.CodecSpeed(encode_s=1e-6, decode_s=1e-8)
    # docs/algorithms.md: each of N = 4 ranks encodes the tensor once and decodes it (2N - 1) / N times; a bias travels
    # raw.
    seconds = work.codec_seconds(speed, tensors, "ps", [0, 1, 2, 3], 4096)
    assert seconds == pytest.approx(4 * (1.0 + 0.01 * 7 / 4))
    # With two ranks on each of two hosts, one rank per host encodes.
    shared = work.codec_seconds(speed, tensors, "hierarchical", [0, 0, 1, 1], 4096)
    assert shared == pytest.approx(2 * 1.0 + 4 * 0.01 * (3 / 4 + 1 / 2))


def test_a_codec_has_a_speed() -> None:
    speed = importlib.import_module("benchmarks.harness.codec_work").codec_speed("onebit")
    assert 1e-12 < speed.decode_s < 1e-7
    assert 1e-12 < speed.encode_s < 1e-7


def job(**changes: Any) -> Any:
    fields: dict[str, Any] = {
        **{"model": "vgg19", "size": 0, "ours": [], "tried": [["onebit", "ps"], ["onebit", "ring"]]},
        **{"peers": ["gloo-fp32", "gloo-fp16", "powersgd"], "partitions": 0, "min_compress_bytes": None},
        **{"release": "all", "repeats": 0, "timeout": 1.0, "interface": "", "gloo_port": 0, "result": ""},
    }
    return sync_job.Job(**{**fields, **changes})


def test_what_a_run_needs_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = importlib.import_module("benchmarks.sync.memory")
    size = job().gradients.size
    everything = memory.memory_needed(job(), 4)
    # The sum of values, residuals of two topologies, buckets, their float16 copies and PowerSGD's residuals is 5.5 to 9
    # times the model.
    assert 5.5 * 4 * size < everything < 9 * 4 * size
    assert everything - memory.memory_needed(job(peers=["gloo-fp32", "gloo-fp16"]), 4) > 4 * size
    assert memory.memory_needed(job(ours=[["none", "ps"]], tried=[], peers=[]), 2) < 2 * (2 * size + 10**9)
    monkeypatch.setattr(memory, "memory_available", lambda: everything - 1)
    assert "needs about" in memory.memory_warning(job(), 4)
    monkeypatch.setattr(memory, "memory_available", lambda: everything)
    assert memory.memory_warning(job(), 4) == ""


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
