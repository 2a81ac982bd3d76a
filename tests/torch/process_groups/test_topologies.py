# SPDX-License-Identifier: Apache-2.0
"""All topologies over process groups, with the bits of the engine. tests/core/test_slot_topologies.py has more cases,
without a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress import _core
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.core.casync.engine_world import run_ranks, spec
from tests.tiers import usually
from tests.torch.ddp import training
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


def _by_engine(codec: str, topology: str) -> list[dict[str, Any]]:
    def body(engine: _core.Engine) -> list[dict[str, Any]]:
        options = {"codec": codec, "topology": topology}
        given = {name: each.numpy() for name, each in _values(engine.rank, 0).items()}
        tensors = engine.declare([spec(name, each, lasting_name=name, **options) for name, each in given.items()])
        results = []
        for step in range(STEPS):
            outputs = {name: each.numpy() for name, each in _values(engine.rank, step).items()}
            pairs = zip(tensors, outputs.values(), strict=True)
            for operation in [engine.submit(each, out, out) for each, out in pairs]:
                engine.wait(operation)
            results.append(outputs)
        return results

    return run_ranks(WORLD, body, options={"hosts": [0, 0, 1, 1]})[0]


@training.in_process_group
def _by_group(rank: int, codec: str, topology: str) -> list[dict[str, Any]]:
    shapes = {name: TensorShape(count, torch.float32, 2) for name, count in COUNTS.items()}
    hosts = 2 if topology.startswith("hierarchical") else 0
    options = GroupOptions(codec, topology, ranks_per_host=hosts, min_compress_bytes=0, portion_bytes=40_000)
    results = []
    averages = [GroupAverage(shapes, None, options), GroupAverage(shapes, None, options, side=FakeGpuSide())]
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
    expected = _by_engine(codec, topology)
    for found in run(_by_group, WORLD, str(tmp_path), codec, topology):
        for step in range(STEPS):
            for name in COUNTS:
                np.testing.assert_array_equal(found[step][name], expected[step][name], err_msg=f"{name}, step {step}")


def test_an_unknown_topology_is_refused_with_all_names() -> None:
    with pytest.raises(hp.InvalidArgument, match="no topology 'star'; choose one of: ps, ring, butterfly, allgather"):
        GroupOptions("onebit", "star").check(["w"])
