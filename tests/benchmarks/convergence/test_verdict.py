# SPDX-License-Identifier: Apache-2.0
"""A method is cleared by proof only: a small gap, a known spread, enough trainings, none of which ended in NaN."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest

from benchmarks.convergence.verdict import ECONOMY, SAFE, Verdict, baseline, verdict

TASK = ("help-decoder", "adamw")
START = 5.0


def _rows(method: str, losses: list[float | None]) -> list[dict[str, Any]]:
    task, optimizer = TASK
    return [
        {
            "task": task,
            "optimizer": optimizer,
            "method": method,
            "learning_rate": 0.1,
            "seed": seed,
            "loss": loss,
            "losses": [START, *[3.0] * 17, 2.2, 2.1, 2.0],
        }
        for seed, loss in enumerate(losses)
    ]


BASELINE = [2.0 + 0.001 * (seed % 3) for seed in range(10)]


def _judged(losses: list[float | None], baselines: list[float | None] | None = None) -> Verdict:
    rows = _rows("bf16", BASELINE if baselines is None else baselines) + _rows("int8", losses)
    beside = baseline(rows, *TASK, 0.1)
    assert beside is not None
    found = verdict(rows, *TASK, "int8", 0.1, beside)
    assert found is not None
    return found


def test_a_method_without_a_gap_is_cleared() -> None:
    found = _judged(list(BASELINE[:3]))
    assert found.gap == 0.0
    assert found.limit == pytest.approx(3.09 * statistics.stdev(BASELINE) / math.sqrt(3) / (START - 2.0009))
    assert found.is_cleared(SAFE)


def test_a_gap_is_judged_by_its_margin() -> None:
    found = _judged([each + 0.03 for each in BASELINE[:3]])
    assert found.gap_share == pytest.approx(0.01, rel=0.01)
    assert not found.is_cleared(SAFE)
    assert found.loses(SAFE)
    assert found.is_cleared(ECONOMY)


def test_a_gap_within_the_spread_proves_nothing() -> None:
    spread = [2.0 + 0.02 * seed for seed in range(10)]
    found = _judged([each + 0.03 for each in spread[:3]], list(spread))
    assert not found.is_cleared(SAFE)
    assert not found.loses(SAFE)


def test_gaps_are_of_pairs_with_the_same_seed() -> None:
    spread = [2.0 + 0.5 * seed for seed in range(10)]
    assert _judged([each + 0.01 for each in spread[:3]], list(spread)).gap == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("losses", "baselines"),
    [
        (BASELINE[:2], BASELINE),  # too few trainings
        (BASELINE[:3], BASELINE[:9]),  # too few of the baseline
        ([*BASELINE[:2], None], BASELINE),  # one ended in NaN
    ],
)
def test_without_proof_nothing_is_cleared(losses: list[float | None], baselines: list[float | None]) -> None:
    found = _judged(losses, baselines)
    assert not found.is_cleared(ECONOMY)
    assert not found.loses(ECONOMY) or None in losses


def test_a_trainings_last_steps_tell_how_flat_its_curve_is() -> None:
    beside = baseline(_rows("bf16", list(BASELINE)), *TASK, 0.1)
    assert beside is not None
    assert beside.late_gain == pytest.approx(0.2 / (START - 2.0009))


def test_without_trainings_there_is_no_verdict() -> None:
    assert baseline([], *TASK, 0.1) is None
    rows = _rows("bf16", list(BASELINE))
    beside = baseline(rows, *TASK, 0.1)
    assert beside is not None
    assert verdict(rows, *TASK, "int8", 0.1, beside) is None
