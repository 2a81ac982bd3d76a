# SPDX-License-Identifier: Apache-2.0
"""The repetition that benchmarks/adapters.py times in MXNet turns values into averages between two calls of the
clock."""

from __future__ import annotations

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from tests.frameworks.averaging_benchmark import repetitions
from tests.mxnet.ranks import run


def test_the_benchmark_averages_what_it_times() -> None:
    assert run(repetitions, 2, "mxnet") == [["start", "stop"] * 2] * 2
