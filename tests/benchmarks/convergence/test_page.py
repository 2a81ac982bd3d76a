# SPDX-License-Identifier: Apache-2.0
"""docs/convergence.md says of a method what its trainings prove, and names those that are missing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.convergence.cells import FACTORS, rate

ROOT = Path(__file__).parents[3]
PAIR = ("digits-cnn", "sgd")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    return importlib.import_module("convergence_table").convergence_page


def _rows(method: str, losses: list[float | None], vnmse: float = 0.01) -> list[dict[str, Any]]:
    """With the first learning rate, and worse ones with the others, of seed 0."""
    task, optimizer = PAIR
    every = [(rate(*PAIR, FACTORS[0]), seed, loss) for seed, loss in enumerate(losses)]
    every += [(rate(*PAIR, factor), 0, 9.0) for factor in FACTORS[1:]]
    return [
        {
            "task": task,
            "optimizer": optimizer,
            "method": method,
            "learning_rate": learning_rate,
            "seed": seed,
            "loss": loss,
            "losses": [3.0, *[2.0] * 17, loss, loss, loss],
            "bytes": 1000,
            "vnmse": vnmse,
            "steps": 300,
            "machine": "a machine",
            "torch": "2.13.0",
        }
        for learning_rate, seed, loss in every
    ]


def _line(text: str, method: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{method}` |"))


BASELINE = [1.0 + 0.0001 * (seed % 2) for seed in range(10)]


def test_each_method_gets_its_verdict(page: Any) -> None:
    rows = [
        *_rows("bf16", list(BASELINE)),
        *_rows("int8", [1.0, 1.0001, 1.0]),
        *_rows("onebit", [1.02, 1.02, 1.02]),
        *_rows("onebit(error_feedback=false)", [1.5, None, 1.5]),
        *_rows("dgc", [1.0, 1.0]),
    ]
    text = page(rows)
    assert "| **safe** |" in _line(text, "int8")
    assert "| **economy** |" in _line(text, "onebit")
    assert "| **loses** |" in _line(text, "onebit(error_feedback=false)")
    assert "**NaN**" in _line(text, "onebit(error_feedback=false)")
    assert "| reference |" in _line(text, "bf16")
    assert "Not trained yet: `int4`" in text
    assert "`dgc`" in text.partition("Not trained yet: ")[2]  # two trainings prove nothing
    assert f"{len(rows)} trainings so far, on: a machine, torch 2.13.0." in text


def test_a_wide_spread_proves_nothing(page: Any) -> None:
    spread = [1.0 + 0.05 * seed for seed in range(10)]
    text = page([*_rows("bf16", list(spread)), *_rows("int8", list(spread[:3]))])
    assert "| not proved |" in _line(text, "int8")


def test_without_results_nothing_is_claimed(page: Any) -> None:
    assert page(None).endswith("\nNot measured.\n")
    assert "## " not in page(_rows("bf16", [1.0]))
