# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/adapters.py times of a framework, on a rank that has it."""

from __future__ import annotations

import numpy as np


class NotedClock:
    """Says in which order it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self) -> None:
        self.asked.append("start")

    def stop(self) -> None:
        self.asked.append("stop")


def repetitions(framework: str) -> list[str]:
    """On a rank: two of them, each with the same averages."""
    from benchmarks import models
    from benchmarks.adapters import systems
    from hipress import runtime
    from hipress.adapter.synchronizer import SynchronizationOptions

    runtime.init()
    shapes = {"weight": (3, 5), "bias": (5,)}
    gradients = models.GradientSet(
        "made up", tuple(models.Gradient(name, shape, 0.0) for name, shape in shapes.items())
    )
    own = 1.0 + runtime.rank()
    values = [np.full(shape, own * (index + 1), np.float32) for index, shape in enumerate(shapes.values())]
    system = systems.SYSTEMS[framework](gradients, values, SynchronizationOptions())
    clock = NotedClock()
    for _ in range(2):
        system.repeat(clock)
        for index, average in enumerate(system.averages()):
            np.testing.assert_array_equal(average, np.full_like(values[index], 1.5 * (index + 1)))
    runtime.shutdown()
    return clock.asked
