# SPDX-License-Identifier: Apache-2.0
"""Which threads an engine has, as `top -H` and debuggers show them, and that none outlives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hipress import _core
from tests.core.casync.engine_world import run_ranks, spec


def _ours() -> list[str]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found.append((task / "comm").read_text().strip())
        except OSError:  # it has ended since
            continue
    return sorted(name for name in found if name.startswith("hipress "))


def test_threads_are_called_after_what_they_do_and_end_with_the_engine() -> None:
    def body(engine: _core.Engine) -> list[str]:
        values = np.ones(1000, np.float32)
        (tensor,) = engine.declare([spec("w", values)])
        engine.wait(engine.submit(tensor, values, values))
        engine.allgather("here", b"")
        running = _ours()
        engine.allgather("here", b"")
        return running

    for running in run_ranks(2, body, options={"compute_threads": 2}):
        assert running == sorted(
            2 * ["hipress inproc", "hipress lane 0", "hipress lane 1", "hipress notices", "hipress windows"]
        )
    assert _ours() == []
