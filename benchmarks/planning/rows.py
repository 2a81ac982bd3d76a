# SPDX-License-Identifier: Apache-2.0
"""The rows of planning.py: predicted and measured times of each run, and plans compared with uniform runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.report import Row, spread
from benchmarks.planning.job import Answer, Job, Measured, fastest_uniform, medians, slowest
from hipress.secopa.models.registry import make_model
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Plan
from hipress.secopa.profile.profile import Profile


@dataclass(frozen=True)
class Setting:
    """The common columns of a run."""

    nodes: int
    ranks_per_node: int
    rate: str
    profile_nodes: int
    """Number of nodes of the profile's measurement."""


def rows_of(answer: Answer, job: Job, setting: Setting) -> list[Row]:
    """One row for each run."""
    world = setting.nodes * setting.ranks_per_node
    models = [make_model("timeline", Profile.parse(one, "the profile"), world) for one in answer.profiles]
    gradients = job.planned_gradients
    uncompressed = fastest_uniform(RAW, answer.measured)
    planning_s = iter(answer.planning_s)
    rows: list[Row] = []
    for one in answer.measured:
        plan = None if one.plan is None else Plan.parse(one.plan, "a plan")
        if plan is not None:
            choices = plan.choices()
        else:
            choices = job.uniform_choices(one.codec, one.topology or "", one.partitions or 0)
        predicted = [model.step(gradients, choices) for model in models]
        turns = zip(predicted, medians(one.samples), strict=True)
        shares = [step.step_s / measured_s for step, measured_s in turns]
        rows.append(
            {
                "model": job.model,
                "world": world,
                "nodes": setting.nodes,
                "ranks_per_node": setting.ranks_per_node,
                "rate": setting.rate,
                "profile_nodes": setting.profile_nodes,
                "release": job.release,
                "system": "uniform" if plan is None else "plan",
                "codec": one.codec,
                "topology": one.topology,
                "partitions": one.partitions,
                "compressed": sum(choice.compressed for choice in choices),
                "repeats": sum(one.samples[0].turns),
                **spread("time", slowest(one.samples)),
                "predicted_s": statistics.median(step.step_s for step in predicted),
                "predicted_share": statistics.median(shares),
                "bytes_sent": round(one.mean("bytes_sent")),
                "predicted_bytes": round(statistics.fmean(predicted[0].sent_bytes)),
                "cpu_s": one.mean("cpu_seconds"),
                "predicted_cpu_s": statistics.median(statistics.fmean(step.cpu_s) for step in predicted),
                "best_share": None if one.pair is None else one.pair.share,
                "uncompressed_share": None if plan is None else _share(one, answer.measured, uncompressed),
                "planning_s": next(planning_s) if plan is not None else None,
            }
        )
    return rows


def _share(plan: Measured, measured: list[Measured], other: int) -> float:
    """The plan's time divided by the other run's time; the pair's ratio if both were measured as a pair."""
    if plan.pair is not None and fastest_uniform(plan.codec, measured) == other:
        return plan.pair.share
    return plan.time_s / measured[other].time_s


def summary(rows: Sequence[Row]) -> str:
    """The errors of the predictions, and the ratios of plans to the best runs."""
    off = [abs(float(str(row["predicted_share"])) - 1) for row in rows]
    said = f"predicted times are {statistics.median(off):.0%} off in the middle, {max(off):.0%} at most"
    for name, other in (("best_share", "the best uniform run"), ("uncompressed_share", "the best uncompressed one")):
        shares = [float(str(row[name])) for row in rows if row[name] is not None]
        if shares:
            said += f"; plans take {max(shares):.2f} times as long as {other} at most"
    return said
