# SPDX-License-Identifier: Apache-2.0
"""benchmarks/sync.py as users run it: it measures the chosen systems; no test checks a speed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import cluster
from benchmarks.harness import averaging_rows as sync_rows
from benchmarks.harness import report
from benchmarks.sync import command as sync
from benchmarks.sync.job import PEER_NAMES
from hipress._library import load_core

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
TOPOLOGIES = load_core().topology_names()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "sync.py"), *arguments], capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
def test_all_systems_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    systems = ("--codec", "none,fp16,onebit(error_feedback=false)", "--peer", "gloo-fp32,gloo-fp16,powersgd")
    done = run("--world", "2", "--size", "64K", "--repeat", "2", *systems, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = {row["system"]: row for row in json.loads(file.read_text())}
    names = [
        "hipress none",
        "hipress fp16",
        "hipress onebit(error_feedback=false)",
        "gloo-fp32",
        "gloo-fp16",
        "powersgd",
    ]
    assert list(rows) == names
    for name, row in rows.items():
        assert tuple(row) == sync_rows.COLUMNS
        assert (row["world"], row["size_bytes"], row["repeats"]) == (2, 64000, 2)
        assert 0 < row["time_min_s"] <= row["time_s"] <= row["time_max_s"]
        assert name in done.stdout
    assert rows["gloo-fp32"]["speedup_ratio"] == 1
    # Each of two ranks aggregates half of the tensor, so each sends two halves, and headers.
    assert 64000 < rows["hipress none"]["bytes_sent"] < 65000
    assert 32000 < rows["hipress fp16"]["bytes_sent"] < 33000
    assert 2000 < rows["hipress onebit(error_feedback=false)"]["bytes_sent"] < 3000
    assert rows["gloo-fp32"]["bytes_sent"] is None
    assert rows["hipress none"]["error"] < 1e-6 < rows["hipress fp16"]["error"] < 1e-3


@pytest.mark.slow
def test_peers_can_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = run("--world", "1", "--size", "4K", "--repeat", "1", "--peer", "", "--json", str(file))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    assert row["system"] == "hipress none"
    assert row["speedup_ratio"] is None
    assert row["bytes_sent"] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--codec", "none,onebyte"), "codec 'onebyte' does not exist"),
        (("--codec", "onebit(size=2)"), "no option 'size'"),
        (("--codec", ""), "expected a codec"),
        (
            ("--peer", "nccl"),
            "peer 'nccl' does not exist; the peers are " + ", ".join(PEER_NAMES),
        ),
        (("--size", "100Q"), "'100Q' is not a size"),
        (("--world", "0"), "must be at least 1"),
        (("--nodes", "0", "--rate", "none"), "must be at least 1"),
        (("--nodes", "2"), "--nodes needs --rate"),
        (("--rate", "1gbit"), "give --nodes too"),
        (("--ranks-per-node", "2"), "give --nodes too"),
        (("--nodes", "2", "--rate", "fast"), "'fast' is not a rate"),
        (("--nodes", "2", "--rate", "none", "--world", "2"), "instead of --world"),
        (("--model", "lenet"), "invalid choice: 'lenet'"),
        (("--model", "vgg19", "--size", "1M"), "give one of them"),
        (("--size", "1M", "--release", "backward"), "needs a --model"),
        (("--topology", "star"), "there is no topology 'star'; choose from " + ", ".join(TOPOLOGIES)),
        (("--partitions", "-1"), "must be at least 0"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sync.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        sync.main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_wrong_codec_ends_the_process_with_its_name() -> None:
    done = run("--codec", "onebyte")
    assert done.returncode == 2
    assert "codec 'onebyte' does not exist; the codecs are " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_failing_rank_fails_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"
    monkeypatch.setenv("HIPRESS_PARTITION_BYTES", "none")
    done = run("--world", "2", "--size", "4K", "--json", str(file))
    assert done.returncode == 1
    assert "HIPRESS_PARTITION_BYTES" in done.stderr
    assert "sync.py: a rank failed (exit code 1)" in done.stderr
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.thorough
def test_nodes_of_a_cluster_average_over_its_links(tmp_path: Path) -> None:
    try:
        cluster.check_available()
    except cluster.ClusterUnavailable as error:
        pytest.skip(str(error))
    file = tmp_path / "rows.json"
    place = ("--nodes", "2", "--rate", "100mbit", "--ranks-per-node", "2")
    options = ("--codec", "none", "--topology", "best", "--min-compress-bytes", "0", "--partitions", "2")
    done = run(*place, "--size", "1M", *options, "--repeat", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    *ours, best, gloo = rows
    assert {row["system"] for row in ours} == {"hipress none"}
    assert (best["system"], gloo["system"]) == ("best", "gloo-fp32")
    # The benchmark tries all topologies that fit the cluster. It measures the fastest of them, and at most one more.
    assert list(best["trials"]) == ["ps", "ring", "hierarchical"]
    assert "topologies tried with none: ps " in done.stdout
    assert 1 <= len(ours) <= 2
    assert ours[0]["topology"] == min(best["trials"], key=best["trials"].get)
    assert best["time_s"] == min(row["time_s"] for row in ours)
    for row in rows:
        assert (row["world"], row["nodes"], row["ranks_per_node"], row["rate"]) == (4, 2, 2, "100mbit")
        assert row["error"] < 1e-6
        # Raw values cross the link at least once in each direction, and the link is the bottleneck.
        assert 1_000_000 < row["link_bytes"] < 5_000_000
        assert row["link_limit_s"] > 0.08
        assert 0.7 * row["link_limit_s"] < row["time_s"]  # bytes that the queues let through at once are not limited


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("100M", 10**8), ("1k", 1000), ("1.5G", 1_500_000_000), ("4Mi", 4 << 20), ("2 GiB", 2 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert report.parse_size(text) == size
    assert report.parse_size(report.format_size(size)) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "0.3", "1T", "1 2", "1.0001K"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        report.parse_size(text)


def test_commas_inside_parentheses_belong_to_a_name() -> None:
    assert report.parse_names("none, dgc(ratio=0.01,warmup=4),fp16") == ["none", "dgc(ratio=0.01,warmup=4)", "fp16"]
