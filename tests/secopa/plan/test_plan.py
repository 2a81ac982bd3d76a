# SPDX-License-Identifier: Apache-2.0
"""Plans can be written as documents and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hipress
from hipress.errors import InvalidArgument
from hipress.secopa.plan.check import check_plan
from hipress.secopa.plan.choice import Choice
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.gradients import Gradient, GradientSet
from tests.core.casync.blocks import limits_program


def decision(name: str, elements: int = 100, **changes: Any) -> Decision:
    return Decision.model_validate(
        {"name": name, "elements": elements, "codec": "onebit", "topology": "ps", "partitions": 2, **changes}
    )


def plan(*decisions: Decision) -> Plan:
    return Plan(made_by="a test", world=4, topology="ps", decisions=decisions)


def test_written_and_read_again(tmp_path: Path) -> None:
    written = plan(decision("a", group="1", predicted_s=0.1, reason="it's large"), decision("b", group="1"))
    written.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == written
    assert Plan.read(tmp_path / "plan.json").fingerprint() == written.fingerprint()
    assert plan(decision("a")).fingerprint() != written.fingerprint()


def test_the_runtime_gets_choices_by_name() -> None:
    made = plan(decision("a"), decision("b", codec="none", topology="ring", partitions=1))
    assert made.specs() == {"a": Choice("onebit", "ps", 2), "b": Choice("none", "ring", 1)}
    assert [choice.compressed for choice in made.choices()] == [True, False]


def test_members_of_a_group_travel_alike() -> None:
    plan(decision("a", group="1"), decision("b", group="1"), decision("c", codec="none", group="2"))
    for change in ({"codec": "none"}, {"topology": "ring"}, {"partitions": 1}, {"dtype": "float16"}):
        with pytest.raises(ValueError, match="group '1': 'a' and 'b' differ"):
            plan(decision("a", group="1"), decision("b", group="1", **change))


def test_two_decisions_about_one_gradient_are_refused() -> None:
    with pytest.raises(ValueError, match="two decisions are about 'a'"):
        plan(decision("a"), decision("a"))


def test_a_plan_for_another_model_is_refused_with_the_first_difference() -> None:
    made = plan(decision("a"), decision("b", 7))
    a, b = Gradient(name="a", elements=100), Gradient(name="b", elements=7)
    made.check(GradientSet(gradients=(a, b)))
    for gradients, message in (
        ((a, b, Gradient(name="c", elements=1)), "says nothing about 'c'"),
        ((a,), "names 'b', which the model does not have"),
        ((a, Gradient(name="b", elements=8)), "'b': the plan is for elements 7, the model has 8"),
        ((Gradient(name="a", elements=100, dtype="float16"), b), "'a': the plan is for dtype float32, the model has"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            made.check(GradientSet(gradients=gradients))


def test_a_plan_that_an_engine_would_refuse_is_found_before_a_job_starts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    limits = limits_program.load(tmp_path_factory.getbasetemp() / "limits")
    gradients = GradientSet(gradients=(Gradient(name="a", elements=100),))
    votes = hipress.load_codec(Path(__file__).parents[3] / "examples" / "compll" / "signsgd.cll")
    for changes, said in (
        ({"codec": "int8_shared", "group": "1"}, "'a': codec int8_shared sends each tensor alone, .* in group '1'"),
        ({"codec": "powersgd", "group": "1"}, "'a': codec powersgd sends each tensor alone"),
        ({"codec": "int8_shared(levels=40)"}, "holds the sum of 3 ranks at most, and the plan is for 4"),
        ({"codec": votes, "topology": "ring"}, "and topology ring sends sums of some ranks"),
        ({"codec": limits, "group": "1"}, "one value of 'limit' for each 256 elements, and the plan has .* group '1'"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            check_plan(plan(decision("a", **changes)), gradients)
    for fits in (
        {"codec": limits},
        {"codec": "int8_shared"},
        {"codec": "powersgd", "topology": "ring"},
        {"codec": votes},
    ):
        check_plan(plan(decision("a", **fits)), gradients)
