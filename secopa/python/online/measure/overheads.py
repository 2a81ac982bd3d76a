# SPDX-License-Identifier: Apache-2.0
"""The costs of the engine itself, measured in a job of one rank, which sends no messages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from hipress import _core
from hipress.secopa.online.measure.samples import rounded
from hipress.secopa.profile.profile import Overheads

#: Elements of a task that goes through a queue; smaller tasks run at once.
_QUEUED_ELEMENTS = 20_000
_TENSORS = 64
_PARTITIONS = 64
_REPEATS = 9


def measure_overheads() -> Overheads:
    """The engine's processor times, as medians over a few repetitions."""
    (engine,) = _core.make_local_engines(1)
    try:
        submission_s = _per_step(engine, [1] * _TENSORS, 1) / _TENSORS
        queued = _PARTITIONS * _QUEUED_ELEMENTS
        tasks = len(_core.build_topology("ps", 0, 1, _PARTITIONS)) - len(_core.build_topology("ps", 0, 1, 1))
        task_s = (_per_step(engine, [queued], _PARTITIONS) - _per_step(engine, [queued], 1)) / tasks
    finally:
        engine.shutdown(0.0)
    return Overheads(submission_s=rounded(submission_s), task_s=rounded(max(0.0, task_s)))


def _per_step(engine: _core.Engine, counts: Sequence[int], partitions: int) -> float:
    """Processor seconds to synchronise tensors of these numbers of elements."""
    name = f"overheads {len(counts)} {partitions}"
    specs = [
        _core.TensorSpec(f"{name} {index}", count=count, shape=f"[{count}]", partitions=partitions)
        for index, count in enumerate(counts)
    ]
    handles = engine.agree(name, specs)
    values = [np.zeros(count, np.float32) for count in counts]
    samples = []
    for _ in range(1 + _REPEATS):  # the first step allocates memory
        start = time.process_time()
        submitted = [engine.submit(handle, value, value) for handle, value in zip(handles, values, strict=True)]
        for operation in submitted:
            engine.wait(operation)
        samples.append(time.process_time() - start)
    return statistics.median(samples[1:])
