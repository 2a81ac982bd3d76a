# SPDX-License-Identifier: Apache-2.0
"""A tensor that travels as two linked tensors needs the memory that docs/algorithms.md says."""

from __future__ import annotations

from math import ceil

import pytest

from hipress import _core
from tests.cases import each
from tests.core.casync.engine_world import gradients, run_ranks, spec
from tests.core.casync.test_memory_bounds import BOUNDS, GENEROUS, ROUNDING, RUNS, STEPS, Size

ROWS, COLUMNS = 480, 1024
ELEMENTS = ROWS * COLUMNS
RANK = 4  # of powersgd

#: The bytes of both tensors by codec, and the number of states as large as the gradient.
CODECS: dict[str, tuple[int, int, int]] = {
    "int8_shared(levels=15)": (4 * ceil(ELEMENTS / 256), ELEMENTS + 1, 1),
    "int8_shared(levels=15, error_feedback=false)": (4 * ceil(ELEMENTS / 256), ELEMENTS + 1, 0),
    "thc(levels=15)": (4 * ceil(ELEMENTS / 1024), ELEMENTS + 1, 1),
    "thc(levels=7)": (4 * ceil(ELEMENTS / 1024), ELEMENTS + 1, 1),  # a rank's own levels are packed
    f"powersgd(rank={RANK})": (4 * RANK * ROWS, 4 * RANK * COLUMNS, 1),
    f"powersgd(rank={RANK}, error_feedback=false)": (4 * RANK * ROWS, 4 * RANK * COLUMNS, 0),
}


def run(codec: str, topology: str, size: Size) -> list[_core.MemoryStats]:
    values = [each.reshape(ROWS, COLUMNS) for each in gradients(size.N, ELEMENTS)]

    def body(engine: _core.Engine) -> _core.MemoryStats:
        (tensor,) = engine.declare([spec("w", values[0], codec=codec, topology=topology, partitions=size.K)])
        for _ in range(STEPS):
            result = values[engine.rank].copy()
            engine.wait(engine.submit(tensor, result, result))
        return engine.memory_stats()

    options = {"hosts": size.hosts, "compute_threads": size.T}
    return run_ranks(size.N, body, options=options, read_neighbours=False)


@each("topology", ["ps", "ring", "butterfly", "allgather"])
@each("size", [Size(K=4, H=2), Size(K=4, H=4)])
@pytest.mark.parametrize("codec", CODECS)
def test_what_engines_hold_is_what_the_page_says(codec: str, topology: str, size: Size) -> None:
    first, second, states = CODECS[codec]
    staging = BOUNDS[topology].raw(size) * (first + second)
    values = first + second
    if codec.startswith("powersgd") and states == 0:
        values += 4 * ELEMENTS  # the matrix, from one sum to the other
    stats: list[_core.MemoryStats] = []
    # Chance decides how much memory is in use at once. No run exceeds the bound, and one of several runs comes near it.
    for _ in range(RUNS):
        stats += run(codec, topology, size)
        held = max(each["pool_peak_bytes_in_use"] for each in stats)
        assert held <= ROUNDING * (staging + values)
        if staging + values <= GENEROUS * held:
            break
    assert staging + values <= GENEROUS * held

    assert all(each["pool_bytes_in_use"] == 0 for each in stats)

    kept = max(each["state_bytes"] for each in stats)
    factor = 2 * second if codec.startswith("powersgd") else 0  # the last step's Q and the next one
    assert kept == 2 * 4 * states * ELEMENTS + factor
