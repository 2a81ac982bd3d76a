# SPDX-License-Identifier: Apache-2.0
"""plan="auto": every rank gets the same plan after the same step, and a new plan when the time of a step changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import pytest

from hipress import _core
from hipress.adapter.lists.description import TensorDescription
from hipress.errors import InvalidArgument
from hipress.secopa.models.cost_model import CostModel
from hipress.secopa.online import automatic
from hipress.secopa.online.agreed_plan import agreed_plan
from hipress.secopa.online.automatic import AutomaticOptions, AutomaticPlanning
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.profile.gradients import GradientSet
from tests.core.casync.engine_world import outcomes, run_ranks

OPTIONS = AutomaticOptions(codecs=("onebit",), interval=3, profile_s=0.5, links_s=0.2)
#: The steps of an interval, with the first steps, which do not count.
STEPS = 5


@dataclass
class Followed:
    """Records each plan as (step, fingerprint)."""

    step: int = 0
    plans: list[tuple[int, str]] = field(default_factory=list)
    tensors: tuple[TensorDescription, ...] = (
        TensorDescription("large", "float32", 1 << 20, "[1048576]"),
        TensorDescription("small", "float32", 100, "[100]"),
        TensorDescription("never there", "float32", 7, "[7]"),
    )

    def set_plan(self, plan: Plan | None) -> None:
        self.plans.append((self.step, "" if plan is None else plan.fingerprint()))


def _followed(engine: _core.Engine, seconds: list[float]) -> list[tuple[int, str]]:
    """`seconds`: the time of a step in each interval on rank 0; the other ranks have slightly other times."""
    followed = Followed()
    planning = AutomaticPlanning(engine, followed, OPTIONS)
    for each in seconds:
        plans = len(followed.plans)
        for _ in range(STEPS):
            followed.step += 1
            planning.released(1)
            planning.released(0)
            planning.backward_ended()
            planning.step_ended(each * (1 + 0.001 * engine.rank))
            if len(followed.plans) > plans:
                break  # a new plan begins a new interval
    return followed.plans


def test_the_first_plan_comes_after_the_steps_that_are_observed_and_stays_while_steps_take_as_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "hipress.plan")
    by_rank = run_ranks(3, lambda engine: _followed(engine, [0.1, 0.1, 0.1, 0.09, 0.11]))
    assert all(plans == by_rank[0] for plans in by_rank)
    assert [step for step, _ in by_rank[0]] == [STEPS]
    (line,) = caplog.messages
    assert line.startswith("step 5: a new plan compresses ")
    assert line.endswith("; steps so far took 100 ms")


def test_a_plan_with_which_steps_take_longer_than_without_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hipress.plan")
    for plans in run_ranks(2, lambda engine: _followed(engine, [0.1, 0.11, 0.1, 0.1])):
        assert [step for step, _ in plans] == [STEPS, 2 * STEPS]
        assert plans[1][1] == ""
    assert "is given up: a step takes 110 ms with it, and took 100 ms without" in caplog.messages[-1]


def test_when_steps_take_something_else_there_is_a_new_plan_on_all_ranks_after_the_same_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "hipress.plan")
    by_rank = run_ranks(3, lambda engine: _followed(engine, [0.1, 0.1, 0.5, 0.5, 0.5, 0.5]))
    assert all(plans == by_rank[0] for plans in by_rank)
    steps = [step for step, _ in by_rank[0]]
    assert len(steps) == 2
    assert steps[1] - 2 * STEPS <= 2 * STEPS
    assert "a step took 100 ms before, now 500 ms" in caplog.messages[-1]


def test_a_plan_made_again_is_tried_against_the_one_before_if_that_compressed_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hipress.plan")

    def body(engine: _core.Engine) -> list[tuple[int, str]]:
        return _followed(engine, [0.1, 0.1, 0.5, 0.5, 0.6, 0.5])

    made: list[Plan] = []

    def planned(gradients: GradientSet, model: CostModel, options: PlanningOptions) -> Plan:
        plan = make_plan(gradients, model, replace(options, codecs=()))
        codec = "onebit" if made else "none"
        decisions = tuple(one.model_copy(update={"codec": codec}) for one in plan.decisions)
        made.append(plan.model_copy(update={"decisions": decisions}))
        return made[-1]

    monkeypatch.setattr(automatic, "make_plan", planned)
    by_rank = run_ranks(2, body)
    raw, compressed = (plan.fingerprint() for plan in made)
    assert [followed for _, followed in by_rank[0]] == [raw, compressed, raw]
    assert by_rank[0] == by_rank[1]
    assert "is given up: a step takes 600 ms with it, and took 500 ms without" in caplog.messages[-1]


@pytest.mark.parametrize("devices", [[None, None], [None, _core.SimulatedDevice()]])
def test_gradients_are_grouped_only_if_they_are_on_the_host_of_every_rank(
    devices: list[_core.Device | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def planned(gradients: GradientSet, model: CostModel, options: PlanningOptions) -> Plan:
        asked.append(options.grouping)
        return make_plan(gradients, model, options)

    monkeypatch.setattr(automatic, "make_plan", planned)

    def body(engine: _core.Engine) -> None:
        followed = Followed(tensors=(TensorDescription("w", "float32", 100, "[100]", device=devices[engine.rank]),))
        planning = AutomaticPlanning(engine, followed, OPTIONS)
        while not followed.plans:
            planning.released(0)
            planning.backward_ended()
            planning.step_ended(0.1)

    run_ranks(2, body)
    assert asked == [devices == [None, None]]


def test_if_rank_0_cannot_plan_all_ranks_are_told_why() -> None:
    def body(engine: _core.Engine) -> None:
        def fails() -> Plan:
            raise InvalidArgument("there is no such codec")

        agreed_plan(engine, fails)

    for error in outcomes(3, body):
        assert isinstance(error, InvalidArgument)
        assert str(error) == "rank 0 could not plan: there is no such codec"
