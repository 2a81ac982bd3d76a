# SPDX-License-Identifier: Apache-2.0
"""Writes the results of benchmarks/checkpoints.py and benchmarks/checkpoint_cost.py as tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import benchmark_tables as tables

_WHOLE, _KEPT = "uninterrupted", "residuals kept"


def resumed_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each training run, and for each system a sentence about the differences of the seeds."""
    measured = {name: result for name, result in results.items() if result}
    if not measured:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    lines, said = [], []
    for result in measured.values():
        seeds = sorted({row["seed"] for row in result})
        for training in dict.fromkeys(row["training"] for row in result):
            rows = {row["seed"]: row for row in result if row["training"] == training}
            cells = [f"{rows[seed]['loss_nats']:.3f}" if seed in rows else "–" for seed in seeds]
            first = next(iter(rows.values()))
            lines.append((f"`{first['system']}`", first["ranks"].replace(", ", " → "), training, *cells))
        said.append(_sentences(result))
    first = next(iter(measured.values()))[0]
    caption = (
        f"{first['parameters']:,} parameters, AdamW, {first['steps']} steps of {first['sequences']} sequences over all "
        "ranks. The loss in nats per character, on text that training did not see.\n\n"
    )
    heads = " | ".join(f"Seed {seed}:" for seed in seeds)
    return caption + tables.table(f"System | Ranks | Training | {heads}", lines) + "\n" + "\n".join(said)


def _sentences(result: list[tables.Row]) -> str:
    kept = [row for row in result if row["training"] == _KEPT]
    above = [row["above_whole_nats"] for row in kept]
    errors = [error for row in kept for error in row["load_errors"].values()]
    spread = kept[0]["spread_nats"]
    inside = sum(row["spreads_ratio"] <= 1 for row in kept)
    listed = ", ".join(f"{each:+.4f}" for each in above)
    return (
        f"`{kept[0]['system']}`: the uninterrupted losses have a standard deviation of {spread:.4f} nats over the "
        f"seeds. The resumed losses differ from them by {listed} nats (mean {statistics.fmean(above):+.4f}): "
        f"{inside} of {len(kept)} are within one standard deviation. The mean residual after loading differs from the "
        f"saved one by at most {max(errors):.1e} of its length.\n"
    )


def cost_table(result: tables.Result) -> str:
    """A row for each model, codec and way to take states."""
    if not result:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    lines = [
        (
            str(row["model"]),
            f"`{row['codec']}`",
            row["way"],
            {"own": "this rank's", "mean": "mean over ranks"}[row["states"]],
            f"{row['size_bytes'] / 1e6:,.0f} MB",
            tables.seconds(row["copy_cpu_s"]),
            tables.times(row["cpu_copy_ratio"]),
            tables.times(row["time_copy_ratio"]),
        )
        for row in result
    ]
    caption = f"{result[0]['ranks']} ranks of one machine, {result[0]['repeats']} turns.\n\n"
    heads = "Model | Codec | Way | States | Bytes: | Copy, processor time: | Processor time / copy: | Time / copy:"
    return caption + tables.table(heads, lines)
