# SPDX-License-Identifier: Apache-2.0
"""The planner's search with the timeline model ends in time, and its plan beats one decision for all gradients."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from hipress.secopa.models.cost_model import StepPrediction
from hipress.secopa.models.timeline import TimelineModel
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan, topologies_for
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from hipress.secopa.profile.links import LinkBetween
from hipress.secopa.profile.profile import Profile, RankPlace
from tests.secopa.profile.test_gradients import MODELS
from tests.secopa.profiles import codec, profile

pytestmark = pytest.mark.slow

CODECS = {
    "onebit": codec(1 / 32, 1.5e9, 1e-5),
    "tbq": codec(1 / 16, 2e9, 1e-5),
    "terngrad": codec(1 / 16, 1e9, 1e-5),
    "dgc": codec(0.02, 1e9, 1e-5),
}


def many_gradients(count: int) -> GradientSet:
    chance = random.Random(1)
    return GradientSet(
        backward_s=0.5,
        gradients=tuple(
            Gradient(name=f"g{index}", elements=int(2 ** chance.uniform(8, 24)), release_s=0.5 * (1 - index / count))
            for index in range(count)
        ),
    )


class CountingModel(TimelineModel):
    """Counts the events that it simulates."""

    events = 0

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        prediction = super().step(gradients, choices)
        self.events += prediction.events
        return prediction


@pytest.mark.parametrize("bandwidth", [1.25e8, 3e9])
def test_400_gradients_on_16_nodes_are_planned_with_a_bounded_amount_of_simulation(bandwidth: float) -> None:
    """The bound holds for the simulated events, because the time depends on the machine: about 3 s of one core."""
    gradients, model = many_gradients(400), CountingModel(profile(CODECS, bandwidth=bandwidth, sums=4e9), 16)
    plan = make_plan(gradients, model)
    assert 0 < model.events <= 1.1 * PlanningOptions().max_events
    assert plan.predicted_step_s is not None
    assert plan.predicted_uncompressed_step_s is not None
    assert plan.predicted_step_s <= plan.predicted_uncompressed_step_s


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [("vgg19", 1.25e8), ("vgg19", 3e9), ("resnet50", 6.25e8), ("bert-base", 1.25e8), ("bert-base", 6.25e8)],
)
def test_no_uniform_plan_is_better(name: str, bandwidth: float) -> None:
    gradients = read_gradients(MODELS / f"{name}.json")
    model = TimelineModel(profile(CODECS, bandwidth=bandwidth, sums=4e9), 4)
    plan = make_plan(gradients, model)
    assert plan.predicted_step_s is not None
    for text in ("none", *CODECS):
        for topology in topologies_for(model):
            for shared in (0, 4):
                choices = [
                    Choice(
                        text if one.bytes >= 4096 else "none",
                        topology,
                        shared or by_size(one.elements, one.dtype, 4),
                    )
                    for one in gradients.gradients
                ]
                # A gradient that would gain almost nothing keeps its precision. The planner also ignores small gains,
                # both from compressing and from other numbers of partitions than those by size.
                gain = 0.998
                if text != "none" and not any(decision.codec != "none" for decision in plan.decisions):
                    gain -= PlanningOptions().min_gain
                if shared:
                    gain -= PlanningOptions().min_gain_of_differences
                assert plan.predicted_step_s * gain <= model.step(gradients, choices).step_s, (text, topology, shared)


def test_a_slow_link_changes_the_plan() -> None:
    """The links between hosts a, b and c are fast, and all links to and from host d are slow."""
    gradients = read_gradients(MODELS / "resnet50.json")
    ranks = tuple(RankPlace(host=host, machine=host, cores=2) for host in "abcd")
    fast = profile(CODECS, bandwidth=1e10, sums=4e9)
    slow = profile(CODECS, bandwidth=6e7).link
    ends = [("d", host) for host in "abc"] + [(host, "d") for host in "abc"]
    links = tuple(LinkBetween(source=source, destination=other, costs=slow) for source, other in ends)

    def compressed(**changes: object) -> int:
        content = {**fast.model_dump(), "ranks": ranks, **changes}
        plan = make_plan(gradients, TimelineModel(Profile.model_validate(content), 4), PlanningOptions())
        return sum(decision.codec != "none" for decision in plan.decisions)

    assert compressed() == 0
    assert compressed(links=links) > 0
