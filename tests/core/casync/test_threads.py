# SPDX-License-Identifier: Apache-2.0
"""An engine's threads have the documented names in `top -H` and debuggers, and end with the engine."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from hipress import _core
from tests.core.casync.engine_world import run_ranks, spec


def _ours() -> dict[str, str]:
    """The names of this process's HiPress threads, by thread id."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
        except OSError:  # the thread has ended
            continue
        if name.startswith("hipress "):
            found[task.name] = name
    return found


def test_threads_are_called_after_what_they_do_and_end_with_the_engine() -> None:
    kinds = ["hipress inproc", "hipress lane 0", "hipress lane 1", "hipress notices", "hipress windows"]
    expected = sorted(2 * kinds)
    before = _ours().keys()  # lanes of Python codec calls, and leftovers of other tests

    def added() -> list[str]:
        return sorted(name for thread, name in _ours().items() if thread not in before)

    def body(engine: _core.Engine) -> list[str]:
        values = np.ones(1000, np.float32)
        (tensor,) = engine.declare([spec("w", values)])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("here", b"")
        # A thread that has just started has the name of the thread that started it for a moment.
        until = time.monotonic() + 10
        while (running := added()) != expected and time.monotonic() < until:
            time.sleep(0.01)
        engine.allgather("here", b"")
        return running

    for running in run_ranks(2, body, options={"compute_threads": 2}):
        assert running == expected
    assert added() == []
