# SPDX-License-Identifier: Apache-2.0
"""A rank that waits long logs, well before its deadline, for which ranks and tensors it waits."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.runtime import RuntimeOptions
from tests.core.casync.engine_world import run_ranks, spec

#: Seconds between two warnings.
INTERVAL = 0.5


def late_rank(engine: _core.Engine, late: float, *, attended: bool, group: str = "") -> None:
    """Submits two tensors; rank 1 submits them later."""
    values = [np.ones(7, np.float32) for _ in range(2)]
    tensors = engine.declare([spec(f"layer{index}", value, group=group) for index, value in enumerate(values)])
    if engine.rank == 1:
        time.sleep(late)
    ended = [threading.Event() for _ in tensors]
    operations = []
    for tensor, value, event in zip(tensors, values, ended, strict=True):
        on_done = None if attended else lambda _error, _absent, event=event: event.set()
        operations.append(engine.submit(tensor, value, value, on_done=on_done))
    for operation, event in zip(operations, ended, strict=True):
        if attended:
            engine.wait(operation)
        else:
            assert event.wait(20.0)


def warnings(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if "has waited for" in line]


@pytest.mark.parametrize("attended", [True, False], ids=["awaited", "with a callback"])
def test_the_rank_and_the_tensors_are_named_again_and_again(capfd: pytest.CaptureFixture[str], attended: bool) -> None:
    run_ranks(
        2,
        lambda engine: late_rank(engine, 4 * INTERVAL, attended=attended),
        options={"stall_warning": INTERVAL, "timeout": 20.0},
    )
    said = warnings(capfd)
    assert 2 <= len(said) <= 4, said  # at 0.5, 1 and 1.5 s, and less often on a busy machine
    assert all(line.startswith("hipress: rank 0: ") for line in said)
    assert all("Timeout after 20 s (HIPRESS_TIMEOUT)" in line for line in said)
    # Rank 1 is the aggregator of one of the tensors. The first warning may come between the two tensors' first half
    # seconds, and the last one while rank 1's contribution arrives.
    whole = [
        line
        for line in said
        if "got nothing from rank 1: tensor 'layer" in line
        and "got no aggregate from rank 1: tensor 'layer" in line
        and "'layer0' (step 0)" in line
        and "'layer1' (step 0)" in line
    ]
    assert len(whole) >= len(said) - 2 + (len(said) < 3), said


def test_a_group_that_lacks_a_member_names_it(capfd: pytest.CaptureFixture[str]) -> None:
    def body(engine: _core.Engine) -> None:
        values = [np.ones(7, np.float32) for _ in range(2)]
        tensors = engine.declare([spec(f"layer{index}", value, group="g") for index, value in enumerate(values)])
        first = engine.submit(tensors[0], values[0], values[0])
        later = threading.Timer(2.5 * INTERVAL, lambda: engine.submit(tensors[1], values[1], values[1]))
        later.start()
        engine.wait(first)
        later.join()

    run_ranks(2, body, options={"stall_warning": INTERVAL, "timeout": 20.0})
    said = warnings(capfd)
    assert said
    assert all(
        "has not submitted 'layer1', which travel with it as group 'g': tensor 'layer0'" in line for line in said
    )


@pytest.mark.parametrize(("interval", "late"), [(0.0, 1.0), (5.0, 1.0), (INTERVAL, 0.0)])
def test_nothing_is_said_without_a_stall(capfd: pytest.CaptureFixture[str], interval: float, late: float) -> None:
    run_ranks(
        2,
        lambda engine: late_rank(engine, late, attended=True),
        options={"stall_warning": interval, "timeout": 20.0},
    )
    assert not warnings(capfd)


def test_many_tensors_make_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    def body(engine: _core.Engine) -> Any:
        values = [np.ones(7, np.float32) for _ in range(40)]
        tensors = engine.declare([spec(f"layer{index}", value) for index, value in enumerate(values)])
        if engine.rank == 2:
            time.sleep(1.5 * INTERVAL)
        for operation in [engine.submit(*each) for each in zip(tensors, values, values, strict=True)]:
            engine.wait(operation)

    run_ranks(3, body, options={"stall_warning": INTERVAL, "timeout": 20.0})
    said = warnings(capfd)
    assert 1 <= len(said) <= 2, "one warning for each rank that waits"
    for line in said:
        assert re.search(r"got nothing from rank 2: tensors 'layer\d+' \(step 0\), .* and \d+ more", line), line


def test_what_the_options_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIMEOUT", "START_TIMEOUT", "STALL_WARNING"):
        monkeypatch.delenv(f"HIPRESS_{name}", raising=False)
    by_default = RuntimeOptions.from_environment()
    assert (by_default.timeout, by_default.start_timeout, by_default.stall_warning) == (600.0, 60.0, 60.0)
    assert RuntimeOptions.from_environment(timeout=5.0).start_timeout == 5.0
    assert RuntimeOptions.from_environment(timeout=5.0, start_timeout=9.0).start_timeout == 9.0
    monkeypatch.setenv("HIPRESS_STALL_WARNING", "0")
    assert RuntimeOptions.from_environment().stall_warning == 0.0
