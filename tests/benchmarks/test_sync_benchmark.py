# SPDX-License-Identifier: Apache-2.0
"""benchmarks/sync.py as users run it: that it measures whom it was asked to, not how fast they are."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COLUMNS = [
    "system",
    "codec",
    "topology",
    "world",
    "size_bytes",
    "repeats",
    "time_s",
    "time_min_s",
    "time_max_s",
    "speedup_ratio",
    "algbw_gbps",
    "busbw_gbps",
    "bytes_sent",
    "cpu_s",
    "error",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "sync.py"), *arguments], capture_output=True, text=True, timeout=240
    )


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("report")


def test_all_systems_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    systems = ("--codec", "none,fp16,onebit(error_feedback=false)", "--peer", "gloo,gloo-fp16")
    done = run("--world", "2", "--size", "64K", "--repeat", "2", *systems, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = {row["system"]: row for row in json.loads(file.read_text())}
    names = ["hipress none", "hipress fp16", "hipress onebit(error_feedback=false)", "gloo", "gloo-fp16"]
    assert list(rows) == names
    for name, row in rows.items():
        assert list(row) == COLUMNS
        assert (row["world"], row["size_bytes"], row["repeats"]) == (2, 64000, 2)
        assert 0 < row["time_min_s"] <= row["time_s"] <= row["time_max_s"]
        assert name in done.stdout
    assert rows["gloo"]["speedup_ratio"] == 1
    # Two ranks, each aggregates for the other: a tensor's worth per rank, twice the half, and a little for headers.
    assert 64000 < rows["hipress none"]["bytes_sent"] < 65000
    assert 32000 < rows["hipress fp16"]["bytes_sent"] < 33000
    assert 2000 < rows["hipress onebit(error_feedback=false)"]["bytes_sent"] < 3000
    assert rows["gloo"]["bytes_sent"] is None
    assert rows["hipress none"]["error"] < 1e-6 < rows["hipress fp16"]["error"] < 1e-3


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
        (("--codec", ""), "no codec"),
        (("--peer", "nccl"), "peer 'nccl' does not exist; the peers are gloo, gloo-fp16"),
        (("--size", "100Q"), "'100Q' is not a size"),
        (("--world", "0"), "--world must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    arguments: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "argv", ["sync.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("sync").main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_wrong_codec_ends_the_process_with_its_name() -> None:
    done = run("--codec", "onebyte")
    assert done.returncode == 2
    assert "codec 'onebyte' does not exist; the codecs are " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failing_rank_fails_the_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = run("--world", "2", "--size", "4K", "--topology", "star", "--json", str(file))
    assert done.returncode == 1
    assert "no topology 'star'" in done.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("100M", 10**8), ("1k", 1000), ("1.5G", 1_500_000_000), ("4Mi", 4 << 20), ("2 GiB", 2 << 30)],
)
def test_sizes(report: Any, text: str, size: int) -> None:
    assert report.parse_size(text) == size
    assert report.parse_size(report.format_size(size)) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "0.3", "1T", "1 2", "1.0001K"])
def test_what_is_no_size(report: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        report.parse_size(text)


def test_commas_inside_parentheses_belong_to_a_name(report: Any) -> None:
    assert report.parse_names("none, dgc(ratio=0.01,warmup=4),fp16") == ["none", "dgc(ratio=0.01,warmup=4)", "fp16"]
