# SPDX-License-Identifier: Apache-2.0
"""The measurement of codecs that send a tensor as two linked tensors, and of codecs with votes."""

from __future__ import annotations

from pathlib import Path

import pytest

import hipress
from hipress import _core
from hipress.errors import InvalidArgument
from hipress.secopa.commands.measured import all_codecs
from hipress.secopa.models.suitability import suits
from hipress.secopa.online.measure.codec_costs import Arena
from hipress.secopa.online.measure.linked_costs import LinkedMeasurement
from hipress.secopa.online.measure.measured_profile import MeasureOptions, measure_profile
from hipress.secopa.online.measure.step_parts import Parts, Prediction, Step, compared
from hipress.secopa.profile.curves import MeasuredCurve
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile, read_profile, shipped_profiles
from tests.core.casync.blocks import limits_program
from tests.core.casync.engine_world import run_ranks
from tests.secopa.profiles import linked, profile

SIGNSGD = Path(__file__).parents[3] / "examples" / "compll" / "signsgd.cll"
ASKED = ("onebit", "int8_shared", "thc", "powersgd(rank=2)")


def test_a_profile_has_linked_codecs_and_survives_its_file() -> None:
    options = MeasureOptions(ASKED, seconds=0.5, largest_elements=1 << 14)
    (found,) = run_ranks(1, lambda engine: measure_profile(engine, options))
    assert list(found.codecs) == ["onebit"]
    assert found.codec_names == ASKED
    assert Profile.parse(found.to_json(), "it") == found
    shared, factors = found.linked["int8_shared"], found.linked["powersgd(rank=2)"]
    assert shared.summed is not None
    assert shared.summed.most_ranks == 8
    both = shared.tensors(10_000, 4, None)
    assert both is not None
    assert [(one.elements, one.element_bytes) for one in both] == [(40, 4), (10_001, 1)]
    assert factors.factors is not None
    both = factors.tensors(64 * 100, 4, (64, 4, 25))
    assert both is not None
    assert [(one.suffix, one.elements) for one in both] == [(" (left factor)", 128), (" (right factor)", 201)]
    assert [shared.states, factors.states] == [1, 1]
    assert 0 < (shared.relative_error or 0) < 0.1 < (factors.relative_error or 0) < 1
    for text in ASKED[1:]:
        for curve in (getattr(found.linked[text].times(1), name) for name in ("first", "second", "result")):
            assert isinstance(curve, MeasuredCurve)
            # A time is a difference of two, and its median can be 0 where other work disturbs them.
            assert max(point.largest_s for point in curve.points) > 0


def test_with_a_residual_or_without_all_computations_are_measured() -> None:
    arena = Arena(1 << 14)
    for text in ("int8_shared", "thc", "powersgd"):
        for options, states in (("", 1), ("(error_feedback=false)", 0)):
            measured = LinkedMeasurement(text + options, arena, 0.0, (1, 2), 1, [1 << 10, 1 << 14]).measure()
            assert set(measured.threads) == {1, 2}
            assert measured.states == states


def test_files_from_before_are_readable() -> None:
    for name in shipped_profiles():
        assert read_profile(name).linked == {}


@pytest.mark.slow
def test_inside_steps_the_computations_get_a_factor() -> None:
    options = MeasureOptions(("int8_shared", "powersgd"), seconds=2.0, largest_elements=1 << 16)
    found = run_ranks(2, lambda engine: measure_profile(engine, options))
    assert len({one.fingerprint() for one in found}) == 1
    assert all(costs.in_steps != 1.0 for costs in found[0].linked.values())


def test_whole_steps_tell_the_factor_of_the_computations() -> None:
    known = profile({}).model_copy(update={"linked": {"shared": linked(1e9)}})
    gradients = GradientSet(gradients=(Gradient(name="g", elements=1 << 20),))
    steps = [Step(gradients, text, "ps", 0, 4 << 20) for text in ("none", "shared")]
    prediction = Prediction(known, 2)
    parts = [prediction.parts(step) for step in steps]
    assert parts[1].coding == pytest.approx(3 * (4 << 20) / 1e9, rel=0.01)
    assert parts[1].merging == 0
    slower = parts[1].coding * 1.5 + parts[1].adding + parts[1].messages
    taken = {steps[0]: (parts[0].adding + parts[0].messages, parts[0]), steps[1]: (slower, parts[1])}
    assert compared(known, taken).linked["shared"].in_steps == pytest.approx(1.5, rel=0.02)
    # No gradient of these steps is large enough for two tensors.
    small = {steps[0]: taken[steps[0]], steps[1]: (1.0, Parts(messages=1.0))}
    assert compared(known, small).linked["shared"].in_steps == 1.0


def test_more_ranks_than_a_sum_holds_are_refused_before_anything_is_measured() -> None:
    def body(engine: _core.Engine) -> Profile:
        return measure_profile(engine, MeasureOptions(("onebit", "int8_shared(levels=100)"), seconds=1000.0))

    with pytest.raises(InvalidArgument, match="up to 100 in 8 bits, which holds the sum of 1 ranks at most"):
        run_ranks(2, body)


def test_commands_measure_all_codecs_whose_sums_hold_the_ranks() -> None:
    assert {"int8", "int8_shared", "thc"} <= set(all_codecs(4))
    assert {"int8_shared", "thc"} & set(all_codecs(1000)) == set()
    assert "powersgd" not in all_codecs(4)


@pytest.mark.slow
def test_a_state_with_a_number_for_each_block_costs_a_part_of_a_vector(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    codec = limits_program.load(tmp_path_factory.getbasetemp() / "limits")
    options = MeasureOptions((codec, "onebit"), seconds=0.5, largest_elements=1 << 14)
    (found,) = run_ranks(1, lambda engine: measure_profile(engine, options))
    assert found.codec(codec).states == 1 + 1 / limits_program.BLOCK
    assert found.codec("onebit").states == 1
    assert Profile.parse(found.to_json(), "here") == found
    for grouped in (False, True):
        assert suits(found.codec(codec), "ps", grouped) != grouped
        assert suits(found.codec("onebit"), "ps", grouped)


def test_a_codec_with_votes_is_measured_as_such() -> None:
    codec = hipress.load_codec(SIGNSGD)
    options = MeasureOptions((codec, "onebit"), seconds=0.5, largest_elements=1 << 14)
    (found,) = run_ranks(1, lambda engine: measure_profile(engine, options))
    assert found.codec(codec).merges_decoded
    assert not found.codec("onebit").merges_decoded
