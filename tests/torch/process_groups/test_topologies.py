# SPDX-License-Identifier: Apache-2.0
"""All topologies and plans over process groups, with the bits of the engine. tests/core/test_slot_topologies.py has
more cases, without a group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress
import hipress.torch as hp
from hipress import _core
from hipress.secopa.plan.plan import Decision, Plan
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.core.casync.engine_world import run_ranks, spec
from tests.tiers import usually
from tests.torch.ddp import training
from tests.torch.process_groups.averages import SIGNSGD
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

COUNTS = {"empty": 0, "one": 1, "few": 3000, "many": 70_001, "large": 400_000}
TOPOLOGIES = ["ps", "ring", "butterfly", "allgather", "hierarchical", "hierarchical(butterfly)"]
#: A residual, random numbers, and messages whose length depends on the values.
CASES = [(topology, codec) for topology in TOPOLOGIES for codec in ("onebit", "terngrad")]
CASES += [("ring", "dgc(ratio=0.05)"), ("allgather", "dgc(ratio=0.05)")]
USUAL = [("ps", "onebit"), ("ring", "terngrad"), ("butterfly", "onebit"), ("hierarchical", "terngrad"), CASES[-1]]
WORLD, STEPS = 4, 3


def _values(rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(count, generator=generator) for name, count in COUNTS.items()}


def _by_engine(ways: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """`ways`: of each tensor."""

    def body(engine: _core.Engine) -> list[dict[str, Any]]:
        given = {name: each.numpy() for name, each in _values(engine.rank, 0).items()}
        tensors = engine.declare([spec(name, each, lasting_name=name, **ways[name]) for name, each in given.items()])
        results = []
        for step in range(STEPS):
            outputs = {name: each.numpy() for name, each in _values(engine.rank, step).items()}
            pairs = zip(tensors, outputs.values(), strict=True)
            for operation in [engine.submit(each, out, out) for each, out in pairs]:
                engine.wait(operation)
            results.append(outputs)
        return results

    return run_ranks(WORLD, body, options={"hosts": [0, 0, 1, 1]})[0]


SHAPES = {name: TensorShape(count, torch.float32, 2) for name, count in COUNTS.items()}


@training.in_process_group
def _by_group(rank: int, options: GroupOptions) -> list[dict[str, Any]]:
    results = []
    averages = [GroupAverage(SHAPES, None, options), GroupAverage(SHAPES, None, options, side=FakeGpuSide())]
    for step in range(STEPS):
        of_sides = []
        for average in averages:
            tensors = _values(rank, step)
            average.start(list(tensors.items()), step).wait()
            average._side.synchronize()
            average.raise_error()
            of_sides.append({name: each.numpy() for name, each in tensors.items()})
        for name, each in of_sides[0].items():
            np.testing.assert_array_equal(of_sides[1][name], each)
        results.append(of_sides[0])
    return results


@pytest.mark.parametrize(("topology", "codec"), usually(USUAL, CASES))
def test_both_carriers_and_a_stand_in_for_a_gpu_give_the_same_bits(tmp_path: Path, topology: str, codec: str) -> None:
    hosts = 2 if topology.startswith("hierarchical") else 0
    options = GroupOptions(codec, topology, ranks_per_host=hosts, min_compress_bytes=0, portion_bytes=40_000)
    expected = _by_engine({name: {"codec": codec, "topology": topology} for name in COUNTS})
    _same(run(_by_group, WORLD, str(tmp_path), options), expected)


def _same(ranks: list[list[dict[str, Any]]], expected: list[dict[str, Any]]) -> None:
    for found in ranks:
        for step in range(STEPS):
            for name in COUNTS:
                np.testing.assert_array_equal(found[step][name], expected[step][name], err_msg=f"{name}, step {step}")


#: Each tensor in another way.
WAYS: dict[str, dict[str, Any]] = {
    "empty": {"codec": "onebit", "topology": "ps", "partitions": 1},
    "one": {"codec": "onebit", "topology": "butterfly", "partitions": 1},
    "few": {"codec": "onebit", "topology": "ring", "partitions": 3},
    "many": {"codec": "terngrad", "topology": "allgather", "partitions": 2},
    "large": {"codec": "onebit", "topology": "hierarchical", "partitions": 5},
}


def _planned(ways: dict[str, dict[str, Any]], **other: Any) -> GroupOptions:
    decisions = tuple(Decision(name=name, elements=COUNTS[name], **way) for name, way in ways.items())
    plan = Plan(made_by="a test", world=WORLD, topology="ps", decisions=decisions)
    return GroupOptions(plan=plan, ranks_per_host=2, portion_bytes=40_000, **other)


def test_a_plan_gives_the_bits_of_the_engine(tmp_path: Path) -> None:
    _same(run(_by_group, WORLD, str(tmp_path), _planned(WAYS)), _by_engine(WAYS))


@training.in_process_group
def _restarted(rank: int, options: GroupOptions) -> bool:
    """Whether a new average that has the states after two steps goes on with the same bits."""
    first, again = GroupAverage(SHAPES, None, options), GroupAverage(SHAPES, None, options)
    for step in range(2):
        first.start(list(_values(rank, step).items()), step).wait()
    state = first.state_dict()
    assert {key.split("\n")[0] for key in state} == {"few", "large"}, state.keys()
    again.load_state_dict(state)
    results = []
    for average in (first, again):
        tensors = _values(rank, 2)
        average.start(list(tensors.items()), 2).wait()
        results.append(tensors)
    return all(torch.equal(results[1][name], each) for name, each in results[0].items())


def test_states_of_a_plan_go_on_bit_for_bit(tmp_path: Path) -> None:
    assert run(_restarted, WORLD, str(tmp_path), _planned(WAYS)) == [True] * WORLD


@training.in_process_group
def _bytes_of_groups(rank: int, options: list[GroupOptions]) -> list[int]:
    sent = []
    for each in options:
        average = GroupAverage(SHAPES, None, each)
        average.start(list(_values(rank, 0).items()), 0).wait()
        sent.append(average.sent_bytes)
    return sent


def test_a_group_of_a_plan_has_its_codec_and_partitions_by_size(tmp_path: Path) -> None:
    way = {"codec": "int8", "topology": "ps", "partitions": 7, "group": "all"}
    alike = GroupOptions("int8", min_compress_bytes=0, portion_bytes=40_000)
    planned = replace(_planned(dict.fromkeys(COUNTS, way)), ranks_per_host=0)
    for by_plan, by_codec in run(_bytes_of_groups, WORLD, str(tmp_path), [planned, alike]):
        assert by_plan == by_codec > 0


@training.in_process_group
def _refused(rank: int) -> None:
    without_hosts = replace(_planned(WAYS), ranks_per_host=0)
    with pytest.raises(hp.InvalidArgument, match="give the number of ranks that each host has"):
        GroupAverage(SHAPES, None, without_hosts)
    with pytest.raises(hp.InvalidArgument, match="the plan names 'few', which the model does not have"):
        GroupAverage({name: each for name, each in SHAPES.items() if name != "few"}, None, _planned(WAYS))
    merging = _planned({**WAYS, "few": {**WAYS["few"], "codec": hipress.load_codec(SIGNSGD)}})
    with pytest.raises(hp.InvalidArgument, match=r"merges every rank's values as decoded .* and topology ring"):
        GroupAverage(SHAPES, None, merging)
    other = _planned(WAYS if rank else {**WAYS, "few": {**WAYS["few"], "partitions": 2}})
    with pytest.raises(hp.Mismatch, match="plan for few"):
        GroupAverage(SHAPES, None, other)


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    run(_refused, WORLD, str(tmp_path))
    with pytest.raises(hp.InvalidArgument, match="a warm-up goes with codec and codec_for"):
        _planned(WAYS, warmup=hp.Warmup(3))


def test_an_unknown_topology_is_refused_with_all_names() -> None:
    with pytest.raises(hp.InvalidArgument, match="no topology 'star'; choose one of: ps, ring, butterfly, allgather"):
        GroupOptions("onebit", "star").check(["w"])
