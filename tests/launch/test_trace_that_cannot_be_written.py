# SPDX-License-Identifier: Apache-2.0
"""A job that cannot write its trace ends with an error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[int, bytes, bytes]]

_PROGRAM = """
import os, resource, sys
import numpy as np
from hipress import _core, runtime
timeline = os.environ.get("TIMELINE")
runtime.init()
print("initialised", flush=True)
if timeline:
    runtime.start_timeline(timeline)
engine = runtime.current().engine
values = np.ones(50_000, np.float32)
(tensor,) = engine.declare([_core.TensorSpec("layer", count=values.size, shape="[50000]")])
engine.wait(engine.submit(tensor, values, values))
if os.environ.get("FULL") == os.environ["HIPRESS_RANK"]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))  # like a disk that is now full
if "EXPLICIT" in os.environ:
    runtime.shutdown()
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "program.py"
    file.write_text(_PROGRAM)
    return str(file)


def test_a_missing_folder_is_found_at_init(run: Run, program: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    missing = str(tmp_path / "missing" / "trace.json")
    code, out, err = run("-np", "2", sys.executable, program, env={"HIPRESS_TRACE": missing})
    assert code == 1
    assert time.monotonic() - begin < 30
    assert b"initialised" not in out
    assert f"InvalidArgument: the trace {missing} cannot be written: No such file or directory".encode() in err


def test_a_missing_folder_is_found_at_start_timeline(run: Run, program: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "trace.json")
    code, out, err = run("-np", "2", sys.executable, program, env={"TIMELINE": missing})
    assert code == 1
    assert b"initialised" in out
    assert f"InvalidArgument: the trace {missing} cannot be written".encode() in err


@pytest.mark.parametrize("explicit", [True, False], ids=["shutdown()", "at exit"])
def test_a_disk_that_got_full_is_no_success(run: Run, program: str, tmp_path: Path, explicit: bool) -> None:
    file = tmp_path / "trace.json"
    env = {"HIPRESS_TRACE": str(file), "FULL": "1"} | ({"EXPLICIT": "1"} if explicit else {})
    code, _, err = run("-np", "2", sys.executable, program, env=env)
    assert code == 1
    assert f"the trace {file} cannot be written: File too large".encode() in err
    of_rank_0 = [line for line in err.splitlines() if line.startswith(b"[0]") and b"gradients take" not in line]
    assert not of_rank_0, "rank 0 has no error"
    events = json.loads(file.read_text())
    assert {event["pid"] for event in events} == {0}


def test_what_can_be_written_is(run: Run, program: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text("[\n{}\n]\n")  # an earlier run has left a trace
    assert run("-np", "3", sys.executable, program, env={"HIPRESS_TRACE": str(file)})[0] == 0
    assert {event["pid"] for event in json.loads(file.read_text())} == {0, 1, 2}
