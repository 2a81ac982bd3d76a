# SPDX-License-Identifier: Apache-2.0
"""What benchmarks/adapters.py times of TensorFlow: values become averages between two looks at the clock."""

from __future__ import annotations

from tests.frameworks.averaging_benchmark import repetitions
from tests.tensorflow.ranks import run


def test_the_benchmark_averages_what_it_times() -> None:
    assert run(repetitions, 2, "tensorflow") == [["start", "stop"] * 2] * 2
