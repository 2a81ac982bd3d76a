# SPDX-License-Identifier: Apache-2.0
"""Writes results of benchmarks/planning*.py and replanning.py as tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import benchmark_tables as tables


def decision_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each rate of links: the uncompressed run, the best uniform run, and the plan of one model."""
    lines: list[tuple[str, ...]] = []
    for rate, result in results.items():
        links = "unshaped" if rate == "none" else rate
        if result is None:
            lines.append((links, tables.NOT_MEASURED, *[""] * 4))
            continue
        raw = min((row for row in result if row["system"] == "uniform" and row["codec"] == "none"), key=_time)
        best = min((row for row in result if row["system"] == "uniform"), key=_time)
        # Take the plan that may use every codec.
        plan = max((row for row in result if row["system"] == "plan"), key=lambda row: len(row["codec"].split(",")))
        lines.append(
            (
                links,
                tables.seconds(raw["time_s"]),
                f"{tables.seconds(best['time_s'])} (`{best['codec']}`, {best['topology']})",
                tables.seconds(plan["predicted_s"]),
                tables.seconds(plan["time_s"]),
                str(plan["compressed"]),
            )
        )
    return tables.table(
        "Links | Uncompressed: | Best uniform run: | Plan, predicted: | Plan, measured: | Compressed:", lines
    )


def replanning_table(result: tables.Result) -> str:
    """A row for each plan of a training run in which the links change."""
    if result is None:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    lines = []
    for row in result:
        since = row["after_change"]
        lines.append(
            (
                str(row["rate"]),
                "" if since is None else str(since),
                str(row["steps"]),
                "no plan yet" if row["compressed"] is None else f"{row['compressed']} of {row['gradients']} compressed",
                tables.seconds(row["time_s"]),
            )
        )
    return tables.table("Links | Steps after the change: | For steps: | Plan | A step takes:", lines)


def speed_table(result: tables.Result) -> str:
    """The processor time of plans and simulations."""
    if result is None:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    names = {"plan": "planned", "simulate": "simulated, every codec and topology"}
    lines = [
        (
            names[row["what"]],
            f"{row['gradients']} ({row['model']})",
            str(row["nodes"]),
            str(row["rate"]),
            tables.seconds(row["cpu_s"]),
        )
        for row in result
    ]
    return tables.table("What | Gradients | Hosts: | Links | Processor time:", lines)


def planning_table(results: Mapping[tuple[str, str], tables.Result]) -> str:
    """A row for each rate, model and codec."""
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
    heads = "Gradients of | Links | Codec | Uncompressed: | Best uniform: | Plan: | Compressed: | Plan / best: "
    return tables.table(heads + "| Prediction off: | at most:", lines)


def _time(row: tables.Row) -> float:
    return float(row["time_s"])
