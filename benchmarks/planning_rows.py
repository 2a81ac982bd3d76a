# SPDX-License-Identifier: Apache-2.0
"""The rows of planning.py: what was predicted of each run beside what was measured, and plans beside the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from planning_job import Answer, Job, Measured
from report import Row, spread

from hipress.secopa.choice import RAW
from hipress.secopa.models.by_name import make_model
from hipress.secopa.plan import Plan
from hipress.secopa.profile import Profile


@dataclass(frozen=True)
class Setting:
    """Where it was measured."""

    nodes: int
    ranks_per_node: int
    rate: str
    profile_nodes: int
    """On which the profile was measured."""


def rows_of(answer: Answer, job: Job, setting: Setting) -> list[Row]:
    """A row per run."""
    profile = Profile.parse(answer.profile, "the profile")
    world = setting.nodes * setting.ranks_per_node
    model = make_model("timeline", profile, world)
    gradients = job.planned_gradients
    planning_s = iter(answer.planning_s)
    rows: list[Row] = []
    for one in answer.measured:
        plan = None if one.plan is None else Plan.parse(one.plan, "a plan")
        if plan is not None:
            choices = plan.choices()
        else:
            choices = job.uniform_choices(one.codec, one.topology or "", one.partitions or 0)
        predicted = model.step(gradients, choices)
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
                "repeats": len(one.seconds),
                **spread("time", one.seconds),
                "predicted_s": predicted.step_s,
                "predicted_share": predicted.step_s / one.time_s,
                "bytes_sent": round(one.mean("bytes_sent")),
                "predicted_bytes": round(statistics.fmean(predicted.sent_bytes)),
                "cpu_s": one.mean("cpu_seconds"),
                "predicted_cpu_s": statistics.fmean(predicted.cpu_s),
                "best_share": _share(one, answer.measured, compressed=True),
                "uncompressed_share": _share(one, answer.measured, compressed=False),
                "planning_s": next(planning_s) if plan is not None else None,
            }
        )
    return rows


def _share(one: Measured, measured: Sequence[Measured], *, compressed: bool) -> float | None:
    """A plan's time by that of the fastest uniform run: of those with its codecs and those without any, or of these."""
    if one.plan is None:
        return None
    codecs = {RAW, *(one.codec.split(",") if compressed else ())}
    others = [other.time_s for other in measured if other.plan is None and other.codec in codecs]
    return one.time_s / min(others) if others else None


def summary(rows: Sequence[Row]) -> str:
    """How far predictions are from what was measured, and plans from the best."""
    off = [abs(float(str(row["predicted_share"])) - 1) for row in rows]
    said = f"predicted times are {statistics.median(off):.0%} off in the middle, {max(off):.0%} at most"
    for name, other in (("best_share", "the best uniform run"), ("uncompressed_share", "the best uncompressed one")):
        shares = [float(str(row[name])) for row in rows if row[name] is not None]
        if shares:
            said += f"; plans take {max(shares):.2f} times as long as {other} at most"
    return said
