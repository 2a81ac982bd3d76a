# SPDX-License-Identifier: Apache-2.0
"""Checks the code that benchmarks/adapters.py times in a framework, on a rank that has the framework."""

from __future__ import annotations

import numpy as np


class NotedClock:
    """A clock that records the order of its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def start(self) -> None:
        self.asked.append("start")

    def stop(self) -> None:
        self.asked.append("stop")


def repetitions(framework: str) -> list[str]:
    """Runs two repetitions of the same averages on a rank. Returns the calls of the clock."""
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
