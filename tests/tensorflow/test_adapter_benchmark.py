# SPDX-License-Identifier: Apache-2.0
"""The repetition that benchmarks/adapters.py times in TensorFlow turns values into averages between two calls of the
clock."""

from __future__ import annotations

from tests.frameworks.averaging_benchmark import repetitions
from tests.tensorflow.ranks import run


def test_the_benchmark_averages_what_it_times() -> None:
    assert run(repetitions, 2, "tensorflow") == [["start", "stop"] * 2] * 2
