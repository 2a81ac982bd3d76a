# SPDX-License-Identifier: Apache-2.0
"""The results of benchmarks/convergence.py as the page docs/convergence.md."""

from __future__ import annotations

import math

import benchmark_tables as tables

from benchmarks.convergence.cells import BASELINE_SEEDS, PAIRS, RANKS, SEEDS, Grid, best_rate
from benchmarks.convergence.methods import BASELINE, METHODS, is_codec, suits
from benchmarks.convergence.tasks import TASKS
from benchmarks.convergence.verdict import ECONOMY, LEAST_SEEDS, SAFE, Baseline, Verdict, baseline, rows_of, verdict

_OPTIMIZERS = {"adamw": "AdamW", "momentum": "SGD with momentum", "sgd": "SGD"}
_HEADS = (
    "Method | Learning rate: | Trainings: | Loss: | Gap in σ: | Gap: | Upper limit: | | Steps to 99 %: | "
    "Sent per step and rank: | Error of an average:"
)
#: The part of the baseline's gain that a training must reach to count its steps.
_REACHED = 0.99

_INTRO = f"""\
# What codecs change in a training

<!-- docs/update_benchmarks.py writes this page from benchmarks/results/convergence.json: change the script, or measure
     again. -->

Small models train on {RANKS} ranks with every codec, beside `bf16`, which sends half of the values' bits and is the
reference. [The suite](../benchmarks/README.md#convergencepy) takes data that installed packages have. All gradients
are compressed, small ones and vectors, too, which a training leaves exact by default.

**How a method is cleared.** The rule for clearing was written before the first training; the rule for "loses" was
made stricter after those on the digits, where a gap within the spread had counted as a loss. All methods have the
seeds of the reference: the same first weights, the same data in the same order. A method's *gap* is its loss minus
that of `bf16` with the same seed, on examples that are kept back. The *gain* is what `bf16` takes off the loss of
the first weights. The *upper limit* is the mean gap plus 3.09 σ / √n, as a part of the gain: n is the number of
trainings, σ the standard deviation of the loss of `bf16` over {BASELINE_SEEDS} seeds. So the gap lies below the
limit with 99.9 %.

| | upper limit | meaning |
|---|---|---|
| **safe** | {100 * SAFE:g} % at most | no measured loss |
| **economy** | {100 * ECONOMY:g} % at most | a small, bounded loss |
| **loses** | | the gap lies above {100 * SAFE:g} % with 99.9 % |
| not proved | | neither: the trainings are too few, or differ too much |

A method is "safe" by proof only. Its learning rate is the best of three for the first method of its class, with seed
0. Methods with fewer than {LEAST_SEEDS} trainings, and a reference with fewer than {BASELINE_SEEDS}, prove
nothing. Where three trainings left the limit near a margin, more were made, up to 16, after looking at these three. A
training that ends in NaN has an infinite loss. Losses are in nats, the mean of the last three of 20 looks at the
training. Learning rates are constant.
"""


def convergence_page(rows: tables.Result) -> str:
    """The whole page."""
    if not rows:
        return f"{_INTRO}\n{tables.NOT_MEASURED.capitalize()}.\n"
    made = "; ".join(sorted({f"{row['machine']}, torch {row['torch']}" for row in rows}))
    result = "[convergence](../benchmarks/results/convergence.json)"
    said = f"\n{len(rows)} trainings so far, on: {made}. Result: {result}.\n"
    return _INTRO + said + "".join(_section(rows, task, optimizer) for task, optimizer in PAIRS)


def _section(rows: list[tables.Row], task: str, optimizer: str) -> str:
    """The table of a task and an optimizer; empty if the reference was not trained with several seeds."""
    rate = best_rate(rows, task, optimizer, BASELINE, Grid())
    beside = None if rate is None else baseline(rows, task, optimizer, rate)
    if beside is None or len(beside.losses) < LEAST_SEEDS:
        return ""
    lines, missing = [], []
    for method in METHODS:
        if not suits(method, optimizer):
            continue
        line = _line(rows, task, optimizer, method, beside)
        if line is None:
            missing.append(method)
        else:
            lines.append(line)
    heading = f"\n## {TASKS[task].title}, {_OPTIMIZERS[optimizer]}\n\n"
    text = heading + _caption(task, beside) + tables.table(_HEADS, lines)
    if missing:
        text += f"\nNot trained yet: {', '.join(map(_shown, missing))}.\n"
    return text


def _caption(task: str, beside: Baseline) -> str:
    about = TASKS[task]
    lost = f"; {beside.ended_in_nan} more ended in NaN, and are left out" if beside.ended_in_nan else ""
    return (
        f"{about.describes}; {about.steps} steps of {about.examples} examples for each rank. `bf16` goes from "
        f"{beside.start:.3f} to {beside.mean:.3f} (σ {beside.sigma:.4f}, {len(beside.losses)} seeds{lost}); the last "
        f"tenth of the steps brings {100 * beside.late_gain:.1f} % of this gain.\n\n"
    )


def _line(rows: list[tables.Row], task: str, optimizer: str, method: str, beside: Baseline) -> tuple[str, ...] | None:
    """A row of the table; None: the method was not trained with its best learning rate."""
    rate = best_rate(rows, task, optimizer, method, Grid())
    found = None if rate is None else verdict(rows, task, optimizer, method, rate, beside)
    if rate is None or found is None or (method != BASELINE and found.n < SEEDS):
        return None
    own = rows_of(rows, task, optimizer, method, rate)
    sent, errors = [row["bytes"] for row in own], [row["vnmse"] for row in own if row["vnmse"] is not None]
    judged = "reference" if method == BASELINE else _judged(found)
    far = judged == "loses"
    return (
        _shown(method),
        f"{rate:g}",
        str(found.n),
        _bold(f"{found.mean:.3f}" if math.isfinite(found.mean) else "NaN", far),
        "" if method == BASELINE else f"{found.gap_in_sigma:+.1f}",
        "" if method == BASELINE else _bold(f"{100 * found.gap_share:+.2f} %", far),
        "" if method == BASELINE or math.isnan(found.limit) else f"{100 * found.limit:+.2f} %",
        _bold(judged, judged in ("safe", "economy", "loses")),
        _steps(own, beside),
        "–" if sent[0] is None else f"{sum(sent) / len(sent) / 1000:,.1f} kB",
        f"{sum(errors) / len(errors):.2g}" if errors else "–",
    )


def _judged(found: Verdict) -> str:
    if found.is_cleared(SAFE):
        return "safe"
    if found.is_cleared(ECONOMY):
        return "economy"
    return "loses" if found.loses(SAFE) else "not proved"


def _steps(own: list[tables.Row], beside: Baseline) -> str:
    """The mean number of steps to _REACHED of the baseline's gain."""
    wanted = beside.start - _REACHED * beside.gain
    counts = []
    for row in own:
        every = row["steps"] // (len(row["losses"]) - 1)
        reached = (place for place, loss in enumerate(row["losses"]) if loss is not None and loss <= wanted)
        counts.append(next((every * place for place in reached), math.inf))
    mean = sum(counts) / len(counts)
    return f"{mean:.0f}" if math.isfinite(mean) else "not reached"


def _shown(method: str) -> str:
    return f"`{method}`" if is_codec(method) else method


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text
