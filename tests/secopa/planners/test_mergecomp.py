# SPDX-License-Identifier: Apache-2.0
"""MergeComp's planner makes few groups in the order of release, and divides them at the best places."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from tests.secopa.planners.pipeline_model import PipelineModel
from tests.secopa.profile.test_gradients import MODELS
from tests.secopa.profiles import codec, profile

#: A model in which a message costs so much that merging pays, and in which backward hides a part of it.
MODEL = PipelineModel(profile({"onebit": codec(1 / 32, 2e9, 1e-3)}, bandwidth=1e7, latency=2e-3), world=4)
ALL = PlanningOptions(topologies=("ps",), min_compress_bytes=0, margin=0.0)


def layers(count: int) -> GradientSet:
    return GradientSet(
        backward_s=0.3,
        gradients=tuple(
            Gradient(name=f"g{index}", elements=50_000 + 7_000 * index, release_s=0.3 * (1 - index / count))
            for index in range(count)
        ),
    )


def runs(plan: Plan) -> list[list[str]]:
    """The members of each group, in the order of the model; a gradient without a group is a group of its own."""
    groups: dict[str, list[str]] = {}
    for decision in plan.decisions:
        groups.setdefault(decision.group or decision.name, []).append(decision.name)
    return list(groups.values())


@pytest.mark.parametrize(("count", "worse"), [(2, 1.0), (3, 1.05)])
def test_groups_are_divided_where_it_is_best(count: int, worse: float) -> None:
    """The place between two groups is exactly the best. Places between more groups are searched one after the other,
    which can miss a gain of two places together."""
    gradients = layers(14)
    plan = make_plan(gradients, MODEL, PlanningOptions(**{**vars(ALL), "groups": count}), "mergecomp")
    found = runs(plan)
    assert len(found) == count
    assert [name for run in found for name in run] == [one.name for one in gradients.gradients]
    best = []
    for places in combinations(range(1, 14), count - 1):
        choices: list[Choice] = []
        for number, (first, last) in enumerate(pairwise((0, *places, 14))):
            members = gradients.gradients[first:last]
            partitions = by_size(sum(one.elements for one in members), "float32", 4)
            choices += [Choice("onebit", "ps", partitions, str(number))] * len(members)
        best.append(MODEL.step(gradients, choices).step_s)
    assert plan.predicted_step_s is not None
    assert plan.predicted_step_s <= min(best) * worse + 1e-12


def test_as_many_groups_as_pay() -> None:
    plan = make_plan(layers(40), MODEL, ALL, "mergecomp")
    assert 2 <= len(runs(plan)) <= 8
    one = make_plan(layers(40), MODEL, PlanningOptions(**{**vars(ALL), "groups": 1}), "mergecomp")
    each = make_plan(layers(40), MODEL, PlanningOptions(**{**vars(ALL), "groups": 0}), "mergecomp")
    assert (len(runs(one)), len(runs(each))) == (1, 40)
    assert plan.predicted_step_s is not None
    for other in (one, each):
        assert other.predicted_step_s is not None
        assert plan.predicted_step_s < other.predicted_step_s
    assert plan.decisions[0].reason.startswith("one of ")


def test_where_it_would_lose_nothing_is_merged_or_compressed() -> None:
    fast = PipelineModel(profile({"onebit": codec(1 / 32, 2e9, 1e-3)}, bandwidth=1e11), world=4)
    plan = make_plan(read_gradients(MODELS / "resnet50.json"), fast, ALL, "mergecomp")
    assert {decision.codec for decision in plan.decisions} == {"none"}
    assert plan.predicted_step_s == plan.predicted_uncompressed_step_s


def test_what_may_not_be_compressed_travels_with_its_like() -> None:
    options = PlanningOptions(topologies=("ps",), codecs_for=(("g1*", ()),), min_compress_bytes=0, groups=2)
    plan = make_plan(layers(14), MODEL, options, "mergecomp")
    assert {one.codec for one in plan.decisions if one.name.startswith("g1")} == {"none"}
    assert {one.codec for one in plan.decisions if not one.name.startswith("g1")} == {"onebit"}


def test_more_groups_than_gradients_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="5 groups of 3 gradients"):
        make_plan(layers(3), MODEL, PlanningOptions(topologies=("ps",), groups=5), "mergecomp")
    with pytest.raises(InvalidArgument, match="nothing may be compressed"):
        make_plan(layers(3), MODEL, PlanningOptions(codecs=()), "mergecomp")
