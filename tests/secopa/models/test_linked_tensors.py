# SPDX-License-Identifier: Apache-2.0
"""Codecs that send a tensor as two linked tensors, and codecs with votes: predictions, plans, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.secopa.models.registry import make_model
from hipress.secopa.models.timeline import TimelineModel, TimelineOptions
from hipress.secopa.plan.choice import Choice
from hipress.secopa.planners.limits import memory_bytes
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.planners.units import Unit
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from hipress.secopa.profile.profile import Profile, RankPlace
from hipress.secopa.whatif.scenario import Scenario
from hipress.secopa.whatif.simulate import UniformChoice, pointless_from, simulate_uniform
from hipress.secopa.whatif.worth import worth_of
from tests.core.casync.engine_world import run_ranks
from tests.secopa.profiles import codec as codec_costs
from tests.secopa.profiles import linked, low_rank, profile

MIB = 1 << 20
#: Bytes of a message's header.
HEADER = 32
#: Bytes per second of profile()'s sums.
ADDING = 1e10


def costs(**other: Any) -> Profile:
    """A profile of a summed codec, of one with factors, and of onebit."""
    every = {"shared": linked(4e9), "factors": low_rank(4e9)}
    return profile(**other).model_copy(update={"linked": every})


def gradients(count: int = 4, side: int = 1024) -> GradientSet:
    shape = (side, side)
    each = [Gradient(name=f"g{index}", elements=side * side, shape=shape) for index in range(count)]
    return GradientSet(gradients=tuple(each))


def test_without_contention_a_gradient_takes_the_sum_of_its_parts() -> None:
    rate, latency_s = 1.25e8, 5e-5
    computing_s = 3 * 4 * MIB / 4e9
    model = TimelineModel(costs(), 2)
    for text, first, second in (("shared", 4 * MIB // 256, MIB + 1), ("factors", 4 * 1024, 4 * 1025)):
        hop_s = [(size + HEADER) / rate + latency_s for size in (first, second)]
        found = [model.step(GradientSet(gradients=(one,)), [Choice(text)]) for one in gradients(12).gradients]
        # Either one rank owns both tensors. Or the owner of the second one has the first one last, and has received
        # the other rank's values by then: one hop less.
        longer_s = computing_s + (first + second) / ADDING + 2 * sum(hop_s)
        parts_s = (longer_s, longer_s - min(hop_s))
        off = [min(abs(one.step_s / each_s - 1) for each_s in parts_s) for one in found]
        assert max(off) < 0.002, (text, off, [one.step_s for one in found], parts_s)
        for one in found:
            assert sum(one.sent_bytes) == 2 * (first + second + 2 * HEADER)
            assert one.computing_s[0] >= computing_s
            assert one.gradients[0].end_s == one.step_s


def test_one_rank_for_all_predicts_the_same_step() -> None:
    known = read_gradients("benchmarks/models/resnet50.json")
    many = costs()
    many = many.model_copy(update={"linked": {**many.linked, "shared": linked(4e9, most_ranks=16)}})
    for text in ("shared", "factors"):
        fast, exact = (TimelineModel(many, 16, TimelineOptions(exact_up_to=limit)) for limit in (8, 16))
        choices = UniformChoice(text).choices(known, many, 16)
        found, wanted = (one.step(known, choices) for one in (fast, exact))
        assert found.step_s == pytest.approx(wanted.step_s, rel=0.15), text
        assert exact.step(known, choices) == wanted


@pytest.mark.parametrize("text", ["int8_shared", "int8_shared(levels=7)", "int8_shared(levels=8)", "powersgd(rank=2)"])
@pytest.mark.parametrize("topology", ["ps", "ring", "butterfly", "allgather"])
def test_predicted_bytes_are_those_of_engines_that_follow_a_plan(text: str, topology: str) -> None:
    codec = _core.create_codec(text)
    one = low_rank(4e9, rank=2) if codec.summed is None else linked(4e9, most_ranks=codec.summed[2])
    known = profile().model_copy(update={"linked": {text: one}})
    shapes = [(64, 96), (130, 70), (5, 3, 64, 7), (40000,)]
    tensors = GradientSet(
        gradients=tuple(
            Gradient(name=f"g{index}", elements=int(np.prod(shape)), shape=shape) for index, shape in enumerate(shapes)
        )
    )
    choices = [Choice(text, topology, 3)] * len(shapes)
    predicted = TimelineModel(known, 3).step(tensors, choices)

    def body(engine: _core.Engine, as_planned: bool) -> tuple[int, list[Any]]:
        random = np.random.default_rng(engine.rank)
        values = [random.standard_normal(shape, np.float32) for shape in shapes]
        specs = [
            _core.TensorSpec(
                gradient.name,
                count=gradient.elements,
                shape=str(list(gradient.shape or ())),
                codec=choice.codec,
                topology=choice.topology,
                partitions=choice.partitions if as_planned else 0,
            )
            for gradient, choice in zip(tensors.gradients, choices, strict=True)
        ]
        operations = [engine.submit(one, each, each) for one, each in zip(engine.declare(specs), values, strict=True)]
        for operation in operations:
            engine.wait(operation)
        engine.allgather("all have sent", b"")
        return engine.counters()["bytes_sent"], values

    found, unplanned = (
        run_ranks(3, partial(body, as_planned=planned), options={"hosts": [0, 1, 2]}, read_neighbours=False)
        for planned in (True, False)
    )
    # The simulation has partitions of equal sizes, so only the sum over all ranks is exact.
    assert sum(sent for sent, _ in found) == pytest.approx(sum(predicted.sent_bytes), abs=3)
    for _, values in found:
        for mine, others in zip(values, found[0][1], strict=True):
            assert mine.tobytes() == others.tobytes()
    for mine, by_default in zip(found[0][1], unplanned[0][1], strict=True):
        np.testing.assert_allclose(mine, by_default, rtol=1e-4, atol=1e-5)


def test_plans_choose_such_codecs_where_they_pay() -> None:
    for allowed in ("shared", "factors"):
        plan = make_plan(gradients(), TimelineModel(costs(), 4), PlanningOptions(codecs=(allowed,)))
        assert {decision.codec for decision in plan.decisions} == {allowed}
        assert plan.predicted_step_s is not None
        assert plan.predicted_uncompressed_step_s is not None
        assert plan.predicted_step_s < plan.predicted_uncompressed_step_s / 2
        assert all(decision.group is None for decision in plan.decisions)
    fast = make_plan(gradients(), TimelineModel(costs(bandwidth=1.25e12), 4), PlanningOptions(codecs=("shared",)))
    assert {decision.codec for decision in fast.decisions} == {"none"}


def test_small_gradients_with_such_a_codec_stay_out_of_groups() -> None:
    small = GradientSet(gradients=tuple(Gradient(name=f"g{index}", elements=8192) for index in range(30)))
    slow = costs(bandwidth=1e6, latency=0.0)
    plan = make_plan(small, TimelineModel(slow, 2), PlanningOptions(codecs=("shared",)))
    assert any(decision.codec == "shared" for decision in plan.decisions)
    for decision in plan.decisions:
        assert decision.codec == "none" or decision.group is None
    with pytest.raises(InvalidArgument, match="nothing may be compressed"):
        make_plan(small, TimelineModel(slow, 2), PlanningOptions(codecs=("shared",), groups=1), "mergecomp")


def test_a_gradient_whose_factors_save_nothing_is_planned_uncompressed() -> None:
    vector = GradientSet(
        gradients=(Gradient(name="w", elements=MIB, shape=(1024, 1024)), Gradient(name="b", elements=MIB, shape=(MIB,)))
    )
    plan = make_plan(vector, TimelineModel(costs(), 2), PlanningOptions(codecs=("factors",)))
    assert [decision.codec for decision in plan.decisions] == ["factors", "none"]


def test_what_a_job_cannot_use_is_an_error_if_it_is_named_and_is_left_out_otherwise() -> None:
    shapeless = GradientSet(gradients=(Gradient(name="w", elements=MIB),))
    for text, world, said in (
        ("factors", 4, "the shape of 'w' is not known: give a JSON file of `hipress plan gradients`"),
        ("shared", 16, "holds the sum of 8 ranks at most, and there are 16"),
        ("morse", 4, "has no codec 'morse'; it has: onebit, shared, factors"),
    ):
        model = TimelineModel(costs(), world)
        with pytest.raises(InvalidArgument, match=said):
            make_plan(shapeless, model, PlanningOptions(codecs=(text,)))
        with pytest.raises(InvalidArgument, match=said):
            make_plan(shapeless, model, PlanningOptions(codecs=(), codecs_for=(("w", (text,)),)))
        with pytest.raises(InvalidArgument, match=said):
            model.step(shapeless, [Choice(text)])
    plan = make_plan(shapeless, TimelineModel(costs(), 16))
    assert {decision.codec for decision in plan.decisions} == {"onebit"}


def test_a_group_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'g0': codec 'shared' takes no tensor in group 'a'"):
        TimelineModel(costs(), 2).step(gradients(2), [Choice("shared", group="a")] * 2)


def test_published_models_refuse_what_their_formulas_do_not_have() -> None:
    voting = codec_costs(1 / 32, 4e9).model_copy(update={"merges_decoded": True})
    every = costs().model_copy(update={"codecs": {"votes": voting}})
    for name in ("paper", "released"):
        model = make_model(name, every, 4)
        assert model.codecs == ()
        for text in ("shared", "factors", "votes"):
            with pytest.raises(InvalidArgument, match=f"model {name} has no formula for codec '{text}'"):
                model.gradient_s(MIB, Choice(text))
            with pytest.raises(InvalidArgument, match=f"does not predict steps with codec '{text}'"):
                make_plan(gradients(), model, PlanningOptions(codecs=(text,)))
        assert {one.codec for one in make_plan(gradients(), model).decisions} == {"none"}


def test_votes_are_planned_over_topologies_that_merge_every_contribution_as_decoded() -> None:
    voting = codec_costs(1 / 32, 4e9, 1e-5).model_copy(update={"merges_decoded": True})
    both = profile({"onebit": codec_costs(1 / 32, 4e9, 1e-5), "votes": voting})
    model = TimelineModel(both, 4)
    plain, votes = (model.step(gradients(), [Choice(text, "ps", 4)] * 4) for text in ("onebit", "votes"))
    # One more encode and decode per partition of a rank's share, less one addition of raw values.
    own_s = 4 * (2 * (MIB / 4e9 + 1e-5) - MIB / 2e10)
    assert votes.computing_s[0] - plain.computing_s[0] == pytest.approx(own_s, rel=0.01)
    assert votes.sent_bytes == plain.sent_bytes
    with pytest.raises(InvalidArgument, match="codec 'votes' takes no tensor over topology ring"):
        model.step(gradients(), [Choice("votes", "ring", 4)] * 4)
    plan = make_plan(gradients(), model, PlanningOptions(codecs=("votes",)))
    assert {decision.codec for decision in plan.decisions} == {"votes"}
    assert {decision.topology for decision in plan.decisions} <= {"ps", "allgather"}


def test_memory_counts_both_tensors_and_two_copies_of_the_states() -> None:
    unit = Unit((0,), MIB, 4 * MIB, "float32", 0.0, (), (1024, 1024))
    for text, sent in (("shared", 4 * MIB // 256 + MIB + 1), ("factors", 4 * 2049)):
        found = memory_bytes([unit], [Choice(text, "ps", 4)], costs(), 4)
        assert found == pytest.approx(sent * 3 / 4 + sent + 2 * 4 * MIB), text
    assert memory_bytes([replace(unit, shape=(MIB,))], [Choice("factors", "ps", 4)], costs(), 4) == 4 * MIB * 3 / 4


def test_what_if_simulates_them_and_finds_where_they_are_pointless() -> None:
    for text in ("shared", "factors"):
        row = simulate_uniform(costs(), gradients(), Scenario(nodes=4), UniformChoice(text))
        raw = simulate_uniform(costs(), gradients(), Scenario(nodes=4), UniformChoice())
        assert row.step_s < raw.step_s
        assert row.sent_bytes < raw.sent_bytes / 2
        assert row.questions <= raw.questions
        rate = pointless_from(costs(), gradients(), Scenario(nodes=4), [text], ["ps"])
        assert rate is not None
        assert rate > 1.25e8
    with pytest.raises(InvalidArgument, match="8 ranks at most"):
        simulate_uniform(costs(), gradients(), Scenario(nodes=16), UniformChoice("shared"))


def test_the_answer_whether_compression_pays_has_a_row_for_each() -> None:
    places = tuple(RankPlace(host=f"h{rank}", machine=f"h{rank}", cores=2) for rank in range(4))
    worth = worth_of(costs().model_copy(update={"ranks": places}), gradients())
    assert [row.name for row in worth.rows] == ["none", "onebit", "shared", "factors", "plan"]
