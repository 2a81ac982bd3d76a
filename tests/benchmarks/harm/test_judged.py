# SPDX-License-Identifier: Apache-2.0
"""The trainings of the convergence suite are good or bad, and the rule of harm names them in time or not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.convergence import results
from benchmarks.harm.command import FILE, PAIRS, report
from benchmarks.harm.judged import methods, spoke_at, summary, worst_early


def _row(
    standing: str, *windows: tuple[int, float | None, float | None], optimizer: str = "momentum"
) -> dict[str, Any]:
    named = {"task": "t", "optimizer": optimizer, "method": "onebit", "gap": 0.1}
    return {**named, "standing": standing, "windows": [list(each) for each in windows], "steps": 300}


def test_the_rule_speaks_at_the_first_window_that_says_harm() -> None:
    assert spoke_at(_row("bad", (40, 0.1, 0.99), (60, 0.1, 0.5), (100, 0.1, 0.4))) == 60
    assert spoke_at(_row("good", (40, 3.0, 1.0))) is None
    assert spoke_at(_row("bad", (40, 3.0, 1.0), optimizer="adamw")) == 40
    assert spoke_at(_row("bad", (40, None, None))) == 40  # a training that ended in NaN


def test_a_bad_training_counts_if_it_is_named_in_the_first_third() -> None:
    rows = [
        _row("bad", (40, 0.1, 0.5)),
        _row("bad", (100, 0.1, 0.99), (180, 0.1, 0.5)),
        _row("good", (40, 0.1, 0.99)),
        _row("good", (180, 0.1, 0.1)),
        _row("small", (40, 0.2, 0.1)),
    ]
    assert summary(rows) == {"good": 2, "false_alarms": 1, "bad": 2, "named_in_time": 1}
    assert worst_early(rows) == (0.2, 0.1)


def test_the_suites_methods_are_judged() -> None:
    found = {(each.task, each.optimizer, each.name): each for each in methods(results.read(results.FILE), PAIRS)}
    assert found["help-decoder", "adamw", "int8"].standing == "good"
    assert found["help-decoder", "adamw", "onebit"].standing == "bad"
    assert not any(name.startswith(("dgc", "OneBit", "torch")) for _, _, name in found)


def test_the_committed_trainings_keep_the_bar(capsys: pytest.CaptureFixture[str]) -> None:
    rows = results.read(FILE)
    found = summary(rows)
    assert found["good"] >= 30
    assert found["false_alarms"] == 0
    assert found["named_in_time"] >= 0.8 * found["bad"] > 0
    report(rows)
    assert "false_alarms 0" in capsys.readouterr().out
