# SPDX-License-Identifier: Apache-2.0
"""The measurement of a profile: which ranks measure with each other, the right figures, and the same profile on all
ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, count

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.secopa.online.measure import measured_profile
from hipress.secopa.online.measure.bursts import Burst, run_bursts
from hipress.secopa.online.measure.codec_costs import Arena, CodecMeasurement, sum_curve
from hipress.secopa.online.measure.crowding import crowding
from hipress.secopa.online.measure.measured_profile import MeasureOptions, measure_profile
from hipress.secopa.online.measure.overheads import measure_overheads
from hipress.secopa.online.measure.places import first_ranks
from hipress.secopa.online.measure.point_to_point import Pair, PointToPoint
from hipress.secopa.online.measure.releases import ReleaseTimes
from hipress.secopa.online.measure.samples import cost_point, sampled, sampled_in_turn
from hipress.secopa.online.measure.session import Session
from hipress.secopa.online.measure.step_parts import Parts, Prediction, Step, compared
from hipress.secopa.online.measure.turns import link_turns, neighbours, turns_of
from hipress.secopa.online.measure.typical_link import better, typical, unlike
from hipress.secopa.online.measure.whole_steps import in_steps, most_raw_elements, tried
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.curves import CostPoint, MeasuredCurve
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.links import LinkBetween, LinkCosts
from hipress.secopa.profile.profile import InSteps, Overheads, Profile, RankPlace
from tests.core.casync.engine_world import run_ranks
from tests.secopa.profiles import profile

SMALL = MeasureOptions(("onebit", "dgc(ratio=0.01)"), seconds=0.5, largest_elements=1 << 14)


def places(*hosts: str, machine: str | None = None) -> list[RankPlace]:
    """The places of ranks: each host has a machine of its own, unless `machine` names one for all."""
    return [RankPlace(host=host, machine=machine or host, cores=2) for host in hosts]


@dataclass(frozen=True)
class Measured:
    """The profile that a rank measured. The engine of the rank should hold nothing of the measurement afterwards."""

    profile: Profile
    unexpected_bytes: int
    states: int


@cache
def measured(world_size: int) -> list[Measured]:
    """By rank; several tests look at the same measurement, which takes its time on each rank."""

    def body(engine: _core.Engine) -> Measured:
        found = measure_profile(engine, SMALL)
        return Measured(found, engine.memory_stats()["unexpected_bytes"], len(engine.states()))

    return run_ranks(world_size, body)


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_all_ranks_get_the_same_profile(world_size: int) -> None:
    found = [one.profile for one in measured(world_size)]
    assert len({profile.fingerprint() for profile in found}) == 1
    assert [place.cores for place in found[0].ranks] == [found[0].machine.cores] * world_size
    assert (found[0].shared_memory is None) == (world_size == 1)
    if found[0].shared_memory is not None:
        # The two ranks share the cores.
        assert found[0].shared_memory.duplex_bytes_per_s is None


def test_a_profile_has_every_codec_that_was_asked_for_and_survives_its_file() -> None:
    found = measured(1)[0].profile
    assert list(found.codecs) == ["onebit", "dgc(ratio=0.01)"]
    assert Profile.parse(found.to_json(), "it") == found
    # onebit takes 1 bit per value and two means per block; dgc takes 8 bytes for each of the largest hundredth.
    assert 1 / 33 < found.codec("onebit").encoded.of(1 << 16) / (1 << 16) < 1 / 31
    assert found.codec("dgc(ratio=0.01)").encoded.of(1 << 16) / (1 << 16) == pytest.approx(0.02, rel=0.1)


@pytest.mark.slow
def test_what_is_measured_stays_behind_on_no_rank() -> None:
    assert [(one.unexpected_bytes, one.states) for one in measured(3)] == [(0, 0)] * 3


def test_a_second_measurement_may_come_to_the_same_numbers_with_other_gradients() -> None:
    def body(engine: _core.Engine) -> None:
        for elements in (4096, 5000):
            gradients = GradientSet(gradients=(Gradient(name="weight", elements=elements),))
            in_steps(Session(engine, 60.0), profile().model_copy(update={"gradients": gradients}), 0.05)

    run_ranks(2, body)


def test_a_codec_that_does_not_exist_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(InvalidArgument, match="twobit"):
        run_ranks(1, lambda engine: measure_profile(engine, MeasureOptions(("onebit", "twobit"), seconds=1000.0)))


def test_larger_tensors_cost_more_and_losing_more_shows() -> None:
    arena = Arena(1 << 20)
    sizes = [1 << 12, 1 << 16, 1 << 20]
    costs = CodecMeasurement("onebit", arena, 0.1, (1, 2), 2, sizes).measure()
    assert set(costs.threads) == {1, 2}
    for curve in (costs.times(1).encode, costs.times(1).decode, costs.times(1).merge, sum_curve(arena, 0.1, sizes)):
        assert isinstance(curve, MeasuredCurve)
        assert [point.bytes for point in curve.points] == [4 * size for size in sizes]
        # The size grows 256 times. The shortest times count, because other work on the machine makes both slower.
        assert curve.points[-1].smallest_s > curve.points[0].smallest_s >= 0
    assert len(costs.crowding) == 2
    assert 1.0 == costs.crowding[0] <= costs.crowding[1]
    exact = CodecMeasurement("fp16", arena, 0.0, (1,), 1, sizes).measure()
    assert costs.relative_error is not None
    assert exact.relative_error is not None
    assert costs.relative_error > 0.5 > 1e-3 > exact.relative_error > 0


def test_what_a_codec_would_not_shrink_counts_as_sent_as_it_is() -> None:
    costs = CodecMeasurement("none", Arena(64), 0.0, (1,), 1, [4, 64]).measure()
    assert [point.encoded_bytes for point in costs.encoded.points] == [16, 256]


def test_an_arenas_pieces_are_everywhere_in_it() -> None:
    arena = Arena(1000)
    pieces = arena.pieces(300, [arena.values, arena.output], [arena.values, arena.state(0)])
    firsts = [(next(pieces)[1].ctypes.data - arena.output.ctypes.data) // 4 for _ in range(3)]
    assert firsts == [0, 300, 600]
    assert (next(pieces)[1].ctypes.data - arena.state(0).ctypes.data) // 4 == 0
    mine, others = (arena.pieces(200, [arena.values], share=(index, 2)) for index in range(2))
    assert {next(mine)[0].ctypes.data for _ in range(9)}.isdisjoint(next(others)[0].ctypes.data for _ in range(9))


def test_a_codec_is_measured_with_what_it_remembers_after_some_steps() -> None:
    arena = Arena(1 << 12)
    arena.state(0).fill(7.0)  # a residual of another codec
    CodecMeasurement("onebit", arena, 0.0, (1,), 1, [1 << 10]).measure()
    residual = arena.state(0)
    assert np.abs(residual).max() > 0
    # The residual comes from these values and not from the other codec, so its norm is near the norm of the values.
    assert 0.1 < float(np.linalg.norm(residual) / np.linalg.norm(arena.values)) < 3


def test_neighbours_make_work_longer_never_shorter() -> None:
    assert crowding([lambda: time.sleep(0)]) == (1.0,)
    busy = threading.Event()

    def first() -> None:
        sum(range(20000 if busy.is_set() else 2000))

    def neighbour() -> None:
        busy.set()
        time.sleep(0.001)
        busy.clear()

    alone, beside_one, beside_two = crowding([first, neighbour, neighbour])
    assert 1.0 == alone <= beside_one <= beside_two


def test_the_engine_itself_costs_something() -> None:
    assert 0 < measure_overheads().submission_s < 1e-3


def test_messages_carry_bytes_from_one_rank_to_another_only() -> None:
    def body(engine: _core.Engine) -> int:
        session = Session(engine, 1.0)
        messages = PointToPoint(session, 1000, {Pair(2, 0)}, count=3)
        before = engine.counters()["bytes_sent"]
        messages.begin()
        session.gather(None)
        if messages.sends:
            for index in range(3):
                messages.send(index)
        messages.end()
        session.gather(None)
        return engine.counters()["bytes_sent"] - before

    header = 32
    empty = 3 * 3 * header  # each rank sends a header to each of the three others, three times
    assert run_ranks(4, body) == [empty, empty, empty + 3000, empty]


@pytest.mark.parametrize("both", [False, True])
def test_pairs_that_share_nothing_fire_at_the_same_time(both: bool) -> None:
    pairs = {Pair(0, 3): Burst(4, 5000, both), Pair(2, 1): Burst(2, 100, both)}
    found = run_ranks(5, lambda engine: run_bursts(Session(engine, 1.0), pairs, repeats=3))
    assert all(one == found[0] for one in found)
    assert set(found[0]) == set(pairs)
    assert all(costs.elapsed_s > 0 and costs.bystander_cpu_s is not None for costs in found[0].values())


def test_links_are_measured_pair_by_pair_where_hosts_share_a_machine() -> None:
    turns = link_turns(places("a", "a", "b", "c", machine="m"))
    assert [len(pairs) for pairs in turns] == [1] * 6
    assert {pair for (pair,) in turns} == {Pair(*pair) for pair in ((0, 2), (2, 0), (0, 3), (3, 0), (2, 3), (3, 2))}
    # Every host takes part in the first three measuring turns.
    assert [pair for (pair,) in turns[:3]] == [Pair(0, 2), Pair(2, 3), Pair(3, 0)]


def test_links_between_different_machines_are_measured_together() -> None:
    turns = link_turns(places("a", "b", "c", "d"))
    for pairs in turns:
        ranks = list(chain.from_iterable(pairs))
        assert len(ranks) == len(set(ranks))
    assert len(turns) < 12
    assert sorted(chain.from_iterable(turns)) == [Pair(a, b) for a in range(4) for b in range(4) if a != b]


def test_ranks_of_one_host_have_shared_memory_and_no_links() -> None:
    assert link_turns(places("a", "a")) == []
    assert neighbours(places("a", "b", "b", "a")) == Pair(1, 2)
    assert neighbours(places("a", "b")) is None
    assert first_ranks(["x", "y", "x", "z"]) == {"x": 0, "y": 1, "z": 3}


def test_samples_are_at_least_three_and_go_on_while_there_is_time() -> None:
    ticks: Iterator[int] = count()
    assert sampled(lambda: None, 0.0, lambda: float(next(ticks))) == [1.0] * 3
    slept = threading.Event()
    # 40 is the largest number of samples: they take half a second, and somewhat more on a busy machine.
    assert len(sampled(lambda: slept.wait(0.01), 10.0, lambda: float(next(ticks)))) == 40


def test_what_is_measured_in_turn_does_not_find_what_it_left_itself() -> None:
    now, last = 0.0, ""

    def work(name: str) -> None:
        nonlocal now, last
        now += 1.0 if last == name else 2.0
        last = name

    encode, decode = partial(work, "encode"), partial(work, "decode")
    assert sampled(decode, 0.0, lambda: now) == [1.0] * 3
    assert sampled_in_turn([encode, decode], 0.0, lambda: now) == [[2.0] * 3] * 2


def test_a_call_from_python_is_not_the_codecs_cost() -> None:
    assert cost_point(8, [3.0, 1.0, 5.0, 2.0], call_s=1.5) == CostPoint(
        bytes=8, median_s=1.0, smallest_s=0.0, largest_s=3.5
    )


def test_release_times_are_medians_over_steps() -> None:
    clock = iter([0.0, 1.0, 2.0, 3.0, 10.0, 11.5, 13.0, 14.0, 20.0, 21.25, 23.0, 24.0])
    times = ReleaseTimes(["w", "b", "unused"], lambda: next(clock))
    for _ in range(3):
        times.began()
        times.released("b")
        times.released("w")
        times.ended()
    model = GradientSet(gradients=tuple(Gradient(name=name, elements=3) for name in ("w", "b", "unused")))
    timed = times.on(model)
    assert times.steps == 3
    assert timed.backward_s == 4.0
    assert [gradient.release_s for gradient in timed.gradients] == [3.0, 1.25, None]
    assert timed.releases_s() == [3.0, 1.25, 4.0]


def test_the_first_gradient_starts_the_clock_where_nobody_sees_backward_begin() -> None:
    clock = iter([5.0, 6.0, 8.0])
    times = ReleaseTimes(["a", "b"], lambda: next(clock))
    times.ended()  # a step without gradients
    times.released("a")
    times.released("b")
    times.ended()
    timed = times.on(GradientSet(gradients=(Gradient(name="a", elements=1), Gradient(name="b", elements=1))))
    assert ([one.release_s for one in timed.gradients], timed.backward_s) == ([0.0, 1.0], 3.0)


def test_links_that_are_alike_are_said_once() -> None:
    fast, slow = (LinkCosts(latency_s=5e-5, bandwidth_bytes_per_s=rate, duplex_bytes_per_s=rate) for rate in (1e9, 5e8))
    assert typical([fast, slow, fast]) == fast
    one_way = fast.model_copy(update={"duplex_bytes_per_s": None})
    assert typical([one_way, one_way]).duplex_bytes_per_s is None
    assert unlike(slow, fast)
    assert not unlike(fast.model_copy(update={"bandwidth_bytes_per_s": 1.1e9, "latency_s": 1.5e-4}), fast)


def _whole_step(codec: str, topology: str = "ps", partition_bytes: int = 4 << 20) -> Step:
    return Step(GradientSet(gradients=(Gradient(name="g", elements=1000),)), codec, topology, 0, partition_bytes)


def test_whole_steps_say_how_much_longer_messages_coding_and_merging_take_in_them() -> None:
    # In whole steps, messages take 1.5 times as long with ps, and 1.2 times with ring; coding takes 1.2 times, merging
    # 2 times.
    found = compared(
        profile(),
        {
            _whole_step("none"): (0.32, Parts(adding=0.02, messages=0.2)),
            _whole_step("none", "ring"): (0.26, Parts(adding=0.02, messages=0.2)),
            _whole_step("onebit"): (0.15, Parts(coding=0.1, merging=0.01, messages=0.0067)),
            _whole_step("onebit", "allgather"): (0.22, Parts(coding=0.08, merging=0.06, messages=0.0027)),
        },
    )
    assert found.messages_in_steps == pytest.approx({"ps": 1.5, "ring": 1.2})
    choices = [Choice(topology="ring"), Choice(topology="allgather"), Choice("onebit", "ring")]
    assert [found.message_times(choice.topology, choice.compressed) for choice in choices] == pytest.approx(
        [1.2, 1.5, 1.5]
    )
    (factors,) = found.codec("onebit").in_steps
    assert factors.partition_bytes == 4 << 20
    # The fit makes the two factors a little more alike than they are.
    assert (factors.coding, factors.merging) == pytest.approx((1.2, 2.0), rel=0.2)
    assert factors.merging > 1.3 * factors.coding


def test_steps_with_large_partitions_say_what_those_cost() -> None:
    raw = {_whole_step("none"): (1.0, Parts(messages=1.0))}
    sizes = {
        _whole_step("onebit", partition_bytes=size): (factor, Parts(coding=0.9, merging=0.1))
        for size, factor in ((4 << 20, 1.0), (16 << 20, 2.0))
    }
    costs = compared(profile(), {**raw, **sizes}).codec("onebit")
    # Steps with one topology cannot distinguish coding from merging.
    assert [(one.coding, one.merging) for one in costs.in_steps] == [
        (pytest.approx(factor, rel=0.01),) * 2 for factor in (1.0, 2.0)
    ]
    assert [costs.in_step(size).coding for size in (0, 1 << 20, 8 << 20, 64 << 20)] == [
        pytest.approx(factor, rel=0.01) for factor in (1.0, 1.0, 1.5, 2.0)
    ]


def test_large_partitions_that_seem_to_cost_less_than_small_ones_cost_the_same() -> None:
    raw = {_whole_step("none"): (1.0, Parts(messages=1.0))}
    sizes = {
        _whole_step("onebit", partition_bytes=size): (factor, Parts(coding=0.5, merging=0.5))
        for size, factor in ((4 << 20, 1.5), (16 << 20, 1.0))
    }
    small, large = compared(profile(), {**raw, **sizes}).codec("onebit").in_steps
    assert (large.coding, large.merging) == (small.coding, small.merging)


def test_a_codec_that_computes_nothing_takes_what_it_took() -> None:
    steps = {_whole_step(codec): (0.2, Parts(messages=0.2)) for codec in ("none", "onebit")}
    (factors,) = compared(profile(), steps).codec("onebit").in_steps
    assert (factors.coding, factors.merging) == (1.0, 1.0)


def test_a_predicted_step_has_its_parts() -> None:
    step = replace(_whole_step("onebit"), gradients=GradientSet(gradients=(Gradient(name="g", elements=1 << 20),)))
    told = Prediction(profile(), 2).parts(step)
    slower = (
        profile()
        .codec("onebit")
        .model_copy(update={"in_steps": (InSteps(partition_bytes=1, coding=3.0, merging=1.0),)})
    )
    more = Prediction(profile({"onebit": slower}), 2).step_s(step) - Prediction(profile(), 2).step_s(step)
    assert told.coding > told.merging > 0
    assert more > told.coding
    assert Prediction(profile(), 2).parts(replace(step, codec="none")).coding == 0


def test_whole_steps_are_of_gradients_like_the_models() -> None:
    sizes = (3, 1000, 200_000)
    gradients = GradientSet(gradients=tuple(Gradient(name=f"g{size}", elements=size) for size in sizes))
    known = profile().model_copy(update={"gradients": gradients})
    assert tuple(one.elements for one in tried(known).gradients) == sizes
    smaller = [one.elements for one in tried(known, 1000).gradients]
    assert sum(smaller) == pytest.approx(1000, rel=0.01)
    assert smaller[0] == 1, "no gradient is empty"
    assert sum(one.elements for one in tried(profile()).gradients) > 1e7


def test_a_step_sends_as_much_uncompressed_as_the_slowest_link_can_carry_in_its_time() -> None:
    fast, slow = (most_raw_elements(profile(bandwidth=rate), 4) for rate in (1e9, 1e8))
    assert fast == pytest.approx(10 * slow)
    # With ring or ps between four ranks, three quarters of the gradients pass each link twice.
    assert 1.5 * 4 * slow / 1e8 == pytest.approx(0.2)
    link = profile(bandwidth=1e7).link
    uneven = profile(bandwidth=1e9).model_copy(
        update={"links": (LinkBetween(source="a", destination="b", costs=link),)}
    )
    assert most_raw_elements(uneven, 4) == pytest.approx(slow / 10)


@pytest.mark.slow
def test_in_a_real_step_they_are_measured_on_all_ranks_alike() -> None:
    found = [one.profile for one in measured(2)]
    assert found[0] == found[1]
    # A part never takes exactly as long in a step as alone, so no factor is 1.
    assert found[0].messages_in_steps.keys() == {"ps", "ring"}
    assert 1.0 not in found[0].messages_in_steps.values()
    assert all(codec.in_steps[0].coding != 1.0 for codec in found[0].codecs.values())


def test_links_are_measured_without_codecs_however_large_a_gradient_is() -> None:
    """Such a measurement comes before each new plan of a training except the first plan."""
    options = MeasureOptions((), seconds=0.5, largest_elements=1 << 22)
    found = run_ranks(2, lambda engine: measure_profile(engine, options))
    assert found[0] == found[1]
    assert found[0].codecs == {}
    assert found[0].sum.points[-1].bytes == 16 << 20


def test_a_link_that_seems_slow_only_once_is_like_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures between ranks of one process are replaced by made-up figures."""
    calls = count()

    def slow_at_first(*_: object, **__: object) -> dict[Pair, LinkCosts]:
        pairs = asked.pop(0)
        call = next(calls)
        return {pair: LinkCosts(latency_s=1e-4, bandwidth_bytes_per_s=1e8 if call == 0 else 1e9) for pair in pairs}

    everybody = places("a", "b", "c")
    turns = link_turns(everybody)
    asked: list[list[Pair]] = [*turns, *turns_of(turns[0], everybody)]
    monkeypatch.setattr(measured_profile, "_pairs", slow_at_first)

    class Alone(Session):
        def __init__(self) -> None:
            self.seconds = 10.0
            self.stage = lambda _stage: None

        def time_left(self) -> float:
            return 10.0

    found = measured_profile._links(Alone(), everybody, Overheads())
    assert {costs.bandwidth_bytes_per_s for costs in found.values()} == {1e9}
    assert not asked


def test_the_better_measurement_is_the_one_with_which_a_message_is_there_sooner() -> None:
    slow, fast = (LinkCosts(latency_s=1e-4, bandwidth_bytes_per_s=rate) for rate in (1e8, 1e9))
    late = LinkCosts(latency_s=1.0, bandwidth_bytes_per_s=1e9)
    assert better(slow, fast) == better(fast, slow) == better(late, fast) == fast
