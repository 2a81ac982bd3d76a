# SPDX-License-Identifier: Apache-2.0
"""Results of benchmarks/planning.py as a table: of each setting, the best uniform runs and the plan."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import benchmark_tables as tables


def planning_table(results: Mapping[tuple[str, str], tables.Result]) -> str:
    """By rate and model."""
    lines: list[tuple[str, ...]] = []
    for (rate, model), result in results.items():
        links = "unshaped" if rate == "none" else rate
        if result is None:
            lines.append((model, links, tables.NOT_MEASURED, *[""] * 7))
            continue
        uniform = [row for row in result if row["system"] == "uniform"]
        raw = min((row for row in uniform if row["codec"] == "none"), key=_time)
        for plan in (row for row in result if row["system"] == "plan"):
            codecs = plan["codec"].split(",")
            compared = [row for row in uniform if row["codec"] in codecs]
            best = min(compared, key=_time)
            off = [abs(row["predicted_share"] - 1) for row in (*compared, raw, plan)]
            lines.append(
                (
                    model,
                    links,
                    "any of them" if len(codecs) > 1 else f"`{codecs[0]}`",
                    tables.seconds(raw["time_s"]),
                    f"{tables.seconds(best['time_s'])} ({best['topology']})",
                    tables.seconds(plan["time_s"]),
                    str(plan["compressed"]),
                    tables.times(plan["best_share"]),
                    f"{statistics.median(off):.0%}",
                    f"{max(off):.0%}",
                )
            )
    heads = "Gradients of | Links | Codec | Uncompressed: | Best uniform: | Plan: | Compressed: | Plan by best: "
    return tables.table(heads + "| Prediction off: | at most:", lines)


def _time(row: tables.Row) -> float:
    return float(row["time_s"])
