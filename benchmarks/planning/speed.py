# SPDX-License-Identifier: Apache-2.0
"""Measures the processor time of plans and simulations on one core.

    python benchmarks/planning_speed.py --json FILE

The plans are for 400 artificial gradients on 16 nodes, with the costs of a shipped profile and links of 1 to 100
Gbit/s. The simulations are of every codec and topology on 1,024 nodes.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from benchmarks.harness.report import Row, print_table, write_json
from benchmarks.models import HERE
from hipress.secopa.models.registry import make_model
from hipress.secopa.plan.choice import RAW
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from hipress.secopa.profile.profile import Profile, read_profile
from hipress.secopa.whatif.scenario import Scenario, profile_for
from hipress.secopa.whatif.simulate import UniformChoice, simulate_uniform

_PROFILE = "sosp21-56g"
_GBITPS = (1, 10, 100)
_GRADIENTS, _PLANNED_NODES, _SIMULATED_NODES = 400, 16, 1024
_SIMULATED_MODELS = ("resnet50", "vgg19", "bert-base")
_BACKWARD_S = 0.5


def made_up(count: int) -> GradientSet:
    """Gradients of 1 KiB to 64 MiB, evenly on a logarithmic scale, released one after the other."""
    sizes = random.Random(1)
    gradients = (
        Gradient(name=f"g{index}", elements=int(2 ** sizes.uniform(8, 24)), release_s=_BACKWARD_S * (1 - index / count))
        for index in range(count)
    )
    return GradientSet(model="made up", backward_s=_BACKWARD_S, gradients=tuple(gradients))


def plan(profile: Profile, gradients: GradientSet, gbitps: int) -> Row:
    """The row of one plan."""
    there = profile_for(profile, Scenario(_PLANNED_NODES, bandwidth_bytes_per_s=gbitps * 1e9 / 8))
    start = time.process_time()
    made = make_plan(gradients, make_model("timeline", there, _PLANNED_NODES))
    cpu_s = time.process_time() - start
    return _row("plan", gradients, _PLANNED_NODES, gbitps, cpu_s, sum(choice.compressed for choice in made.choices()))


def simulations(profile: Profile, gradients: GradientSet, gbitps: int) -> Row:
    """The row of all simulations of `hipress simulate` for one network."""
    scenario = Scenario(_SIMULATED_NODES, bandwidth_bytes_per_s=gbitps * 1e9 / 8)
    topologies = ("ps", "ring", "allgather")
    choices = [UniformChoice(codec, topology) for codec in (RAW, *profile.codecs) for topology in topologies]
    start = time.process_time()
    for choice in choices:
        simulate_uniform(profile, gradients, scenario, choice)
    return _row("simulate", gradients, _SIMULATED_NODES, gbitps, time.process_time() - start, None)


def _row(what: str, gradients: GradientSet, nodes: int, gbitps: int, cpu_s: float, compressed: int | None) -> Row:
    return {
        "what": what,
        "model": gradients.model,
        "gradients": len(gradients.gradients),
        "nodes": nodes,
        "rate": f"{gbitps}gbit",
        "compressed": compressed,
        "cpu_s": cpu_s,
    }


def main() -> int:
    """Measures. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args()
    profile = read_profile(_PROFILE)
    rows = [plan(profile, made_up(_GRADIENTS), gbitps) for gbitps in _GBITPS]
    for name in _SIMULATED_MODELS:
        gradients = read_gradients(HERE / f"{name}.json").model_copy(update={"model": name})
        rows += [simulations(profile, gradients, gbitps) for gbitps in (_GBITPS[0], _GBITPS[-1])]
    print_table(rows)
    if given.json:
        write_json(given.json, rows)
    return 0
