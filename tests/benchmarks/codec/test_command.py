# SPDX-License-Identifier: Apache-2.0
"""benchmarks/codec.py measures the calls that it names; no test checks a speed."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.codec import command
from hipress._library import load_core

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
COLUMNS = [
    "codec",
    "encode_memcpy_ratio",
    "decode_memcpy_ratio",
    "error",
    "bytes",
    "torch_encode_ratio",
    "encode_ms",
    "decode_ms",
    "memcpy_ms",
    "size_bytes",
    "threads",
    "repeats",
    "isa",
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "codec.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    return importlib.import_module("benchmarks.codec.command")


def gaussian(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(count, dtype=np.float32)


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


# Tests of the command.


@pytest.mark.slow
def test_every_codec_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    done = run("--size", "40K", "--repeats", "2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = {row["codec"]: row for row in json.loads(file.read_text())}
    assert list(rows) == list(command.CODECS)
    for name, row in rows.items():
        assert list(row) == COLUMNS
        assert (row["size_bytes"], row["threads"], row["repeats"]) == (40000, 1, 2)
        assert row["isa"] in load_core().isa_levels()
        for column in COLUMNS[1:3] + COLUMNS[5:9]:
            assert row[column] > 0, column
        # Unbiased random rounding has a larger error than sending nothing.
        assert 0 < row["error"] < (1.5 if name.startswith("terngrad") else 1)
        assert name in done.stdout
    # Payloads of 10000 elements. onebit: 8 bytes, and a bit per element. tbq: two bits per element. terngrad: two bits
    # per element, and 8 bytes for each of 10 blocks. dgc and graddrop: a count, and 8 bytes for each of ten values.
    sizes = {"onebit": 1258, "tbq": 2500, "terngrad(bitwidth=2)": 2580, "dgc": 84, "graddrop": 84}
    assert {name: rows[name]["bytes"] for name in sizes} == sizes


def test_one_codec_without_torch_at_a_chosen_isa(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    isa = load_core().isa_levels()[0]
    chosen = ("--codec", "onebit", "--no-torch", "--isa", isa, "--threads", "2")
    done = run("--size", "4K", "--repeats", "1", *chosen, "--json", str(file))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    assert (row["codec"], row["isa"], row["threads"]) == ("onebit", isa, 2)
    assert row["torch_encode_ratio"] is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--codec", "onebyte"), "codec 'onebyte' does not exist"),
        (("--isa", "mmx"), "mmx"),
        (("--size", "2"), "--size must be at least 4"),
        (("--threads", "0"), "--threads and --repeats at least 1"),
        (("--repeats", "0"), "--threads and --repeats at least 1"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(
    arguments: tuple[str, ...],
    complaint: str,
    benchmark: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["codec.py", "--size", "4K", *arguments])
    with pytest.raises(SystemExit) as ended:
        benchmark.main()
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


# Tests of the measurement, with a codec that records its calls.


class Recorder:
    """A codec whose payload is the values in float16; it keeps the arguments of every call."""

    signature = "recorder()"
    states = ("residual", "velocity")

    def state_block(self, state: str) -> int:
        return 1

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.encoded: list[bytes] = []

    def max_encoded_bytes(self, count: int) -> int:
        return 2 * count + 10

    def encode_into(self, input: Any, before: Any, after: Any, output: Any, **given: Any) -> int:
        self.calls.append({"input": input, "before": before, "after": after, "output": output, **given})
        output[: 2 * len(input)] = input.astype(np.float16).view(np.uint8)
        return 2 * len(input)

    def decode_into(self, payload: Any, output: Any, *, accumulate: bool, threads: int) -> None:
        assert accumulate
        assert threads == 3
        self.encoded.append(payload.tobytes())
        output += payload.view(np.float16)


def test_each_step_reads_the_states_that_the_last_one_wrote(benchmark: Any) -> None:
    codec, gradient = Recorder(), gaussian(1000)
    row = benchmark.measure(codec, gradient, threads=3, repeats=4, torch_encode=None)
    assert len(codec.calls) > 4
    assert [call["step"] for call in codec.calls] == list(range(len(codec.calls)))
    for call, following in zip(codec.calls[:-1], codec.calls[1:], strict=True):
        assert [address(array) for array in call["after"]] == [address(array) for array in following["before"]]
        assert [address(array) for array in call["before"]] == [address(array) for array in following["after"]]
    first = codec.calls[0]
    arrays = [*first["before"], *first["after"], first["output"]]
    assert len({address(array) for array in arrays}) == 5
    assert all(address(array) % (2 << 20) == 0 for array in arrays)
    assert {len(array) for array in arrays[:4]} == {1000}
    assert len(arrays[4]) == 2010
    assert all((call["scale"], call["tensor"], call["threads"]) == (1.0, 0, 3) for call in codec.calls)
    # decode gets no other payloads than the payloads that encode made
    assert set(codec.encoded) == {gradient.astype(np.float16).tobytes()}
    assert row["bytes"] == 2000
    assert 1e-5 < row["error"] < 1e-3


def test_torch_runs_as_often_as_is_reported_and_its_ratio_is_its_time_by_ours(benchmark: Any) -> None:
    runs = []
    row = benchmark.measure(Recorder(), gaussian(100), threads=3, repeats=9, torch_encode=lambda: runs.append(1))
    assert len(runs) == 1 + benchmark.TORCH_REPEATS
    assert row["torch_encode_ratio"] > 0


def test_torch_is_left_as_it_is_installed(benchmark: Any) -> None:
    pytest.importorskip("torch")
    before = dict(os.environ)
    benchmark.torch_encoder("onebit", gaussian(100), threads=1)()
    assert dict(os.environ) == before


def test_ratios_are_times_by_the_mean_of_the_copies_around(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(run: Any) -> float:
        run()
        if isinstance(run, benchmark.Memcpy):
            return 0.5
        return 2.0 if "encode" in getattr(run, "__name__", "") else 0.25

    monkeypatch.setattr(benchmark, "seconds", pretend)
    row = benchmark.measure(Recorder(), gaussian(100), threads=3, repeats=3, torch_encode=None)
    assert (row["encode_memcpy_ratio"], row["decode_memcpy_ratio"]) == (4.0, 0.5)
    assert (row["encode_ms"], row["decode_ms"], row["memcpy_ms"]) == (2000, 250, 500)


def test_what_is_not_finite_ends_the_benchmark(benchmark: Any) -> None:
    gradient = gaussian(100)
    gradient[3] = math.inf
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(RuntimeError, match=r"recorder\(\): the decoded values are not finite"),
    ):
        benchmark.measure(Recorder(), gradient, threads=3, repeats=1, torch_encode=None)


def test_memcpy_copies_the_whole_tensor(benchmark: Any) -> None:
    source = gaussian(1001)
    memcpy = benchmark.Memcpy(source)
    memcpy()
    copy = memcpy._arrays[0]
    assert address(copy) % (2 << 20) == 0
    np.testing.assert_array_equal(copy, source)
