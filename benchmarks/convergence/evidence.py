# SPDX-License-Identifier: Apache-2.0
"""The evidence in the package, from the suite's results: what `hipress evidence` shows, and `codec="auto"` takes."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import hipress
from benchmarks.convergence.cells import PAIRS, RANKS, Grid, best_rate
from benchmarks.convergence.methods import BASELINE, METHODS, codec_of, is_codec, suits
from benchmarks.convergence.tasks import TASKS
from benchmarks.convergence.verdict import ECONOMY, SAFE, baseline, rows_of, verdict

#: The kinds of optimizers of hipress.secopa.evidence, by the suite's names.
KINDS = {"sgd": "sgd", "momentum": "momentum", "adamw": "adam"}


def evidence_text(results: Sequence[dict[str, Any]]) -> str:
    """The whole file."""
    head = {
        "version": hipress.__version__,
        "ranks": RANKS,
        "safe": SAFE,
        "economy": ECONOMY,
        "tasks": {name: task.title for name, task in TASKS.items()},
    }
    lines = ",\n".join(f"  {json.dumps(row)}" for row in _rows(results))
    fields = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    return f'{{\n{fields}"rows": [\n{lines}\n]\n}}\n'


def _rows(results: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    grid = Grid()
    for task, optimizer in PAIRS:
        for method in (each for each in METHODS if each != BASELINE and suits(each, optimizer)):
            row = _row(results, task, optimizer, method, grid)
            if row is not None:
                yield row


def _row(
    results: Sequence[dict[str, Any]], task: str, optimizer: str, method: str, grid: Grid
) -> dict[str, Any] | None:
    reference_rate = best_rate(results, task, optimizer, BASELINE, grid)
    rate = best_rate(results, task, optimizer, method, grid)
    if reference_rate is None or rate is None:
        return None
    beside = baseline(results, task, optimizer, reference_rate)
    found = None if beside is None else verdict(results, task, optimizer, method, rate, beside)
    if found is None:
        return None
    errors = [each["vnmse"] for each in rows_of(results, task, optimizer, method, rate) if each["vnmse"] is not None]
    return {
        "optimizer": KINDS[optimizer],
        "task": task,
        "method": codec_of(method, optimizer),
        "is_codec": is_codec(method),
        "trainings": found.n,
        "gap": _short(found.gap_share),
        "limit": _short(found.limit),
        "least": _short(found.least),
        "error": _short(statistics.mean(errors)) if errors else None,
    }


def _short(value: float) -> float | str | None:
    """With three digits. JSON has neither infinity nor "not a number"."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else float(f"{value:.3g}")
