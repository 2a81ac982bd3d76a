# SPDX-License-Identifier: Apache-2.0
"""Computes the rows of ablation.py from the measurements of the ranks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from benchmarks.ablation.job import Visit, Visits
from benchmarks.ablation.variants import Line, Variant
from benchmarks.harness.report import Row, spread


@dataclass(frozen=True)
class Setting:
    """The common columns of a run. `rate` None: no emulated cluster. `port_limit` None: the usual queues of the switch.
    `backward_s` None: all gradients are complete when the clock starts."""

    model: str
    size: int
    topology: str
    nodes: int
    world: int
    rate: str | None
    port_limit: int | None
    release: str
    backward_s: float | None
    forward_s: float


def rows(lines: Sequence[Line], variants: Sequence[Variant], visits: Visits, setting: Setting) -> list[Row]:
    """One row for each line of the table."""
    by_name = {variant.name: variant for variant in variants}
    return [_row(line, by_name[line.variant], visits, setting) for line in lines]


def _row(line: Line, variant: Variant, visits: Visits, setting: Setting) -> Row:
    made = visits[variant.name]
    other = [] if line.compared_with is None else visits[line.compared_with]
    time_s, step_s = _all(made, "time_s"), _all(made, "step_s")
    computing = (setting.backward_s or 0.0) + setting.forward_s
    return {
        "group": line.group,
        "variant": line.text,
        "codec": variant.codec,
        "settings": " ".join(f"{name}={value}" for name, value in variant.settings.items()) or "defaults",
        "model": setting.model,
        "topology": setting.topology,
        "nodes": setting.nodes,
        "world": setting.world,
        "rate": setting.rate,
        "port_limit_bytes": setting.port_limit,
        "release": setting.release,
        "backward_s": setting.backward_s,
        "forward_s": setting.forward_s,
        "size_bytes": setting.size,
        "rounds": len(made),
        "repeats": len(time_s),
        **spread("time", time_s),
        **spread("step", step_s),
        "stall_s": statistics.median(step_s) - computing,
        "time_gain_ratio": _gain(made, other, "time_s", line.gains),
        "step_gain_ratio": _gain(made, other, "step_s", line.gains),
        "cpu_s": statistics.median(_all(made, "cpu_s")),
        "messages": round(statistics.mean(_all(made, "messages"))),
        "bundles": round(statistics.mean(_all(made, "bundles"))),
        "retransmitted": round(statistics.mean(_all(made, "retransmitted"))),
    }


def _all(visits: Sequence[Visit], name: str) -> list[float]:
    return list(chain.from_iterable(getattr(visit, name) for visit in visits))


def _gain(mine: Sequence[Visit], other: Sequence[Visit], name: str, gains: bool) -> float | None:
    """The ratio of the times without and with the part: the median of the ratios of each turn, because disturbances of
    the machine last longer than a turn."""
    theirs = {visit.turn: statistics.median(getattr(visit, name)) for visit in other}
    ratios: list[float] = [
        theirs[visit.turn] / statistics.median(getattr(visit, name)) for visit in mine if visit.turn in theirs
    ]
    if not ratios:
        return None
    return statistics.median(ratios if gains else [1 / ratio for ratio in ratios])
