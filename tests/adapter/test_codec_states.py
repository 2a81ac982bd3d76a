# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of codec states without a framework: no change of the job loses values, and a wrong state changes
nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import runtime
from hipress.adapter.codec_states import load_states, mean_states, own_states
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.reduce_ops import Average, Sum
from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
from hipress.errors import HipressError, InvalidArgument, Mismatch
from tests.adapter.hosts import start
from tests.ranks import Ranks

pytestmark = pytest.mark.slow

run = Ranks("import hipress.adapter.codec_states").run
COUNTS = {"w": 5 * 1024 + 7, "odd": 1, "small": 7, "empty": 0}
STEPS = 3
Floats = NDArray[np.float32]
States = Mapping[str, NDArray[Any]]


def make(codec: str = "onebit", counts: Mapping[str, int] = COUNTS, **options: Any) -> TensorList:
    described = [TensorDescription(name, "float32", count, f"[{count}]") for name, count in counts.items()]
    options = {"partitions": 3, "min_compress_bytes": 24, **options}
    return TensorList(described, SynchronizationOptions(codec=codec, **options))


def gradient(name: str, rank: int, step: int) -> Floats:
    seed = [1000 * step + rank, *name.encode()]
    return np.random.default_rng(seed).standard_normal(COUNTS[name]).astype(np.float32)


def synchronize(tensors: TensorList, step: int) -> dict[str, Floats]:
    """Synchronises every tensor once, as an adapter does, and returns the results."""
    results = {}
    for index, tensor in enumerate(tensors.tensors):
        values = gradient(tensor.name, runtime.rank(), step)
        held_back = tensors.held_back(index)
        if held_back is not None:
            values += held_back
        operation = tensors.engine.submit(tensors.handle(index), values, values)
        if held_back is not None:
            tensors.sent_with(operation, index, is_finite=lambda: True)
        tensors.wait(operation)
        results[tensor.name] = values
    return results


def _stage(
    states: Any, codec: str, options: dict[str, Any], steps: range, exact: bool, hosts: list[int]
) -> tuple[Any, dict[str, Any]]:
    """Loads states and does some steps. Returns the states at the end and the sum of the results."""
    start(hosts)
    tensors = make(codec, **options)
    if states is not None:
        load_states(tensors, states)
    arrived = {name: np.zeros(count) for name, count in COUNTS.items()}
    for step in steps:
        for name, values in synchronize(tensors, step).items():
            arrived[name] += values
    return (own_states(tensors) if exact else mean_states(tensors)), arrived


def _missing(ways: list[tuple[int, str, dict[str, Any]]], exact: bool) -> float:
    """Synchronises in each of `ways` (number of ranks, codec, options), one after the other, and at the end without a
    codec. Returns the largest difference between the sum of the ranks' values and the sum of the results, as a share of
    the largest value."""
    states: Any = None
    difference = {name: np.zeros(count) for name, count in COUNTS.items()}
    largest = 1.0
    for number, (world, codec, options) in enumerate([*ways, (2, "none", {"op": ways[-1][2].get("op", Average)})]):
        steps = range(STEPS * number, STEPS * (number + 1))
        hosts = [rank // 2 for rank in range(world)] if options.get("topology") == "hierarchical" else []
        results = run(_stage, world, states, codec, options, steps, exact, hosts)
        states = [saved for saved, _ in results] if exact else results[0][0]
        share = 1.0 if options.get("op", Average) == Sum else 1 / world
        for name in COUNTS:
            given = sum(
                share * gradient(name, rank, step).astype(np.float64) for step in steps for rank in range(world)
            )
            difference[name] += given - results[0][1][name]
            largest = max([largest, *np.abs(given).tolist()])
        held_back = max(float(np.abs(difference[name]).max()) for name in ("w", "small"))
        assert codec == "none" or held_back > 0.05, "the codec keeps residuals"
    return max(float(np.abs(values).max()) / largest for values in difference.values() if values.size > 0)


WAYS: dict[str, list[tuple[int, str, dict[str, Any]]]] = {
    "ranks": [(4, "onebit", {}), (2, "onebit", {}), (8, "onebit", {})],
    "codec": [(3, "onebit", {}), (3, "graddrop(ratio=0.01)", {}), (3, "none", {}), (3, "int4", {})],
    "topology": [
        (3, "onebit", {"topology": "ring"}),
        (3, "onebit", {"topology": "hierarchical"}),
        (3, "onebit", {"topology": "allgather"}),
        (3, "onebit", {"topology": "ps"}),
    ],
    "partitions": [(3, "tbq", {"partitions": 1}), (3, "tbq", {"partitions": 5})],
    "all": [
        (4, "dgc(momentum=0, ratio=0.01)", {"topology": "hierarchical"}),
        (2, "onebit", {"topology": "ring", "partitions": 2}),
    ],
    "sum": [(3, "onebit", {"op": Sum}), (2, "onebit", {"op": Sum, "topology": "ring"})],
    "factors": [
        (3, "onebit", {"prescale_factor": 0.25, "postscale_factor": 4.0}),
        (2, "onebit", {"prescale_factor": 0.5, "postscale_factor": 2.0}),
    ],
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("ways", list(WAYS))
def test_nothing_is_lost_when_it_goes_on_in_another_way(ways: str, exact: bool) -> None:
    assert _missing(WAYS[ways], exact) < 1e-6


def _round_trip(codec: str) -> list[tuple[str, bool]]:
    """By key: whether states that a rank has loaded are saved again with the same bits."""
    start([])
    first = make(codec)
    for step in range(STEPS):
        synchronize(first, step)
    saved = own_states(first)
    load_states(first, saved)
    again = own_states(first)
    assert set(again) == set(saved)
    return [(key, again[key].tobytes() == saved[key].tobytes()) for key in saved]


@pytest.mark.parametrize("codec", ["onebit", "dgc(ratio=0.01)", "none"])
def test_own_states_come_back_to_the_bit(codec: str) -> None:
    for rank in run(_round_trip, 3, codec):
        assert [key for key, same in rank if not same] == []


def _mean_round_trip() -> tuple[Floats, Floats]:
    start([])
    tensors = make()
    for step in range(STEPS):
        synchronize(tensors, step)
    saved = mean_states(tensors)
    load_states(tensors, saved)
    return saved["w/residual"], mean_states(tensors)["w/residual"]


def test_every_rank_gets_the_same_mean_and_it_stays_the_mean() -> None:
    by_rank = run(_mean_round_trip, 3)
    for saved, again in by_rank:
        assert saved.tobytes() == by_rank[0][0].tobytes()
        assert np.abs(saved).max() > 0.01
        np.testing.assert_allclose(again, saved, rtol=1e-6, atol=0)


def _changed(key: str, change: Callable[[NDArray[Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    def apply(states: dict[str, Any]) -> dict[str, Any]:
        return {**states, key: change(states[key].copy())}

    return apply


def _with_nan(values: NDArray[Any]) -> NDArray[Any]:
    values[3] = np.nan
    return values


def _without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda states: {each: value for each, value in states.items() if each != key}


#: Wrong states: how to make each of them, and the text of its error.
WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another tensor": (lambda s: {**s, "v:shape": s["w:shape"]}, "have 'v' .'v:shape'., which is not among"),
    "an unknown entry": (lambda s: {**s, "more": s["w:shape"]}, "'more'"),
    "a tensor less": (_without("w:shape"), "lack 'w'"),
    "another shape": (_changed("w:shape", lambda v: np.frombuffer(b"[51, 27]", np.uint8)), r"'w' has shape \[51, 27\]"),
    "other elements": (_changed("w/residual", lambda v: v[:-1]), r"'w/residual' .* expected float32 of shape \[5127\]"),
    "other types": (_changed("w/residual", lambda v: v.astype(np.float64)), "'w/residual' .* is float64"),
    "no number": (_changed("w/residual", _with_nan), "'w/residual' .* not finite"),
    "no steps": (_changed("w:steps", lambda v: v[:1]), "'w:steps'"),
    "negative steps": (_changed("w:steps", lambda v: -v), "'w:steps'"),
    "other stretches": (_changed("w:stretches", lambda v: v[1:]), "'w:stretches'"),
    "another role": (_changed("w:stretches", lambda v: v + 7), "'w:stretches'"),
    "another format": (_changed("hipress", lambda v: v + 1), "format 2"),
    "another rank": (_changed("hipress", lambda v: np.array([1, 2, 1 - v[2]])), "alone .exact=True."),
    "another world": (_changed("hipress", lambda v: np.array([1, 3, v[2]])), "of 3 alone"),
    "nothing": (lambda s: {}, "are no codecs' states"),
    "no dict": (lambda s: 7, "are a dict of tensors, not a int"),
    "no array": (lambda s: {**s, "w:shape": object()}, "'w:shape'"),
    "a list of one": (lambda s: [s], "the states of all ranks"),
    "an empty list": (lambda s: [], "the states of all ranks"),
}


def _refused() -> dict[str, tuple[str, str, bool]]:
    """By kind of wrong state on rank 1: the text of the error, and whether rank 1's states and steps stay unchanged."""
    start([])
    tensors = make()
    for step in range(STEPS):
        synchronize(tensors, step)
    saved = own_states(tensors)
    for step in range(STEPS, 2 * STEPS):
        synchronize(tensors, step)
    before = own_states(tensors)
    outcomes = {}
    for wrong, (change, _) in WRONG.items():
        kind, text = "", ""
        try:
            load_states(tensors, change(dict(saved)) if runtime.rank() == 1 else saved)
        except HipressError as error:
            kind, text = type(error).__name__, str(error)
        after = own_states(tensors)
        outcomes[wrong] = kind, text, all(after[key].tobytes() == before[key].tobytes() for key in before)
    synchronize(tensors, 2 * STEPS)
    return outcomes


def test_a_wrong_state_is_refused_on_all_ranks_and_changes_nothing() -> None:
    right, refused = run(_refused, 2)
    for wrong, (_, says) in WRONG.items():
        assert (refused[wrong][0], right[wrong][0]) == ("InvalidArgument", "Mismatch"), (wrong, refused[wrong])
        assert re.search(says, refused[wrong][1]), (wrong, refused[wrong])
        assert "rank 1 refused" in right[wrong][1], wrong
        assert right[wrong][2], wrong
        assert refused[wrong][2], wrong


def _of_different_steps() -> str:
    start([])
    tensors = make()
    saved = [own_states(tensors)]
    synchronize(tensors, 0)
    saved.append(own_states(tensors))
    with pytest.raises(Mismatch) as raised:
        load_states(tensors, saved[runtime.rank()])
    return str(raised.value)


def test_ranks_that_load_states_after_different_steps_are_told() -> None:
    for text in run(_of_different_steps, 2):
        assert "differ in the number of steps" in text


def _within_a_step() -> str:
    start([])
    tensors = make()
    values = gradient("w", runtime.rank(), 0)
    operation = tensors.engine.submit(tensors.handle(0), values, values) if runtime.rank() == 0 else None
    try:
        if operation is not None:
            for save in (own_states, mean_states):
                with pytest.raises(InvalidArgument, match="'w' is being synchronised"):
                    save(tensors)
        else:
            with pytest.raises(Mismatch, match=r"rank 0 refused.*being synchronised"):
                mean_states(tensors)
    finally:
        if operation is None:
            operation = tensors.engine.submit(tensors.handle(0), values, values)
        tensors.wait(operation)
    return "between steps again" if own_states(tensors) else ""


def test_states_are_saved_between_steps_only() -> None:
    assert run(_within_a_step, 2) == ["between steps again"] * 2
