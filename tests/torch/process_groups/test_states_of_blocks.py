# SPDX-License-Identifier: Apache-2.0
"""Averages over a process group keep states with one value for each block, save them, and give them to another number
of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.layout import Compressed, Layout
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.states.resharding import states_for
from tests.core.casync.blocks import limits_program
from tests.torch.ddp import training
from tests.torch.process_groups.averages import (
    COUNTS,
    as_on_the_processor,
    average_of,
    summed_as_on_the_processor,
    tensors_of,
)
from tests.torch.process_groups.fake_gpu import FakeGpuSide
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.getbasetemp() / "limits")


@training.in_process_group
def _as_on_the_processor(rank: int, folder: str, world: int, topology: str) -> None:
    as_on_the_processor(rank, world, topology, FakeGpuSide, [limits_program.load(Path(folder))])


@pytest.mark.parametrize(("topology", "world"), [("ps", 2), ("allgather", 2), ("hierarchical", 4)])
def test_averages_and_states_on_a_gpu_are_those_of_the_processor(
    tmp_path: Path, folder: str, topology: str, world: int
) -> None:
    run(_as_on_the_processor, world, str(tmp_path), folder, world, topology)


@training.in_process_group
def _summed_as_on_the_processor(rank: int, folder: str) -> None:
    summed_as_on_the_processor(rank, FakeGpuSide, [limits_program.load_summed(Path(folder))])


def test_added_levels_and_states_on_a_gpu_are_those_of_the_processor(tmp_path: Path, folder: str) -> None:
    run(_summed_as_on_the_processor, 3, str(tmp_path), folder)


def _averaged(average: GroupAverage, rank: int, steps: range) -> list[bytes]:
    results = []
    for step in steps:
        tensors = tensors_of(rank, step)
        average.start(list(tensors.items()), step).wait()
        average._side.synchronize()
        results.append(b"".join(each.view(torch.uint8).numpy().tobytes() for each in tensors.values()))
    return results


@training.in_process_group
def _interrupted(rank: int, folder: str, topology: str) -> None:
    options = GroupOptions(limits_program.load(Path(folder)), topology, min_compress_bytes=0)
    straight, resumed = average_of(options), average_of(options)
    _averaged(straight, rank, range(3))
    saved = straight.state_dict()
    for key, states in saved.items():
        count = int(key.split("\n")[3])
        assert states["residual"].shape == (count,)
        assert states["limit"].shape == (limits_program.blocks(count),)
    resumed.load_state_dict(saved)
    assert _averaged(straight, rank, range(3, 6)) == _averaged(resumed, rank, range(3, 6))
    key = next(key for key in saved if key.startswith("b\n"))
    whole = {**saved[key], "limit": np.zeros(int(key.split("\n")[3]), np.float32)}
    with pytest.raises(InvalidArgument, match="the state 'limit' of 'b' does not have"):
        resumed.load_state_dict({**saved, key: whole})


@pytest.mark.parametrize("topology", ["ps", "allgather"])
def test_an_average_goes_on_to_the_bit_from_saved_states(tmp_path: Path, folder: str, topology: str) -> None:
    run(_interrupted, 2, str(tmp_path), folder, topology)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 5), (4, 1)])
@pytest.mark.parametrize("topology", ["ps", "allgather"])
def test_another_number_of_ranks_gets_the_workers_mean(folder: str, before: int, after: int, topology: str) -> None:
    codec = _core.create_codec(limits_program.load(Path(folder)))
    tensors = [Compressed(name, count, codec) for name, count in COUNTS.items() if count > 3000]
    saved: list[dict[str, Any]] = []
    for rank in range(before):
        states = {}
        for partition in Layout(tensors, Ranks(rank, before, topology)).partitions:
            name, first, count = tensors[partition.tensor].name, partition.first, partition.count
            role = "aggregator" if partition.owner == rank and topology == "ps" else "worker"
            numbers = np.arange(first // limits_program.BLOCK, limits_program.blocks(first + count), dtype=np.float32)
            states[f"{name}\n{role}\n{first}\n{count}"] = {"limit": numbers, "residual": np.ones(count, np.float32)}
        saved.append(states)
    for rank in range(after):
        for key, states in states_for(tensors, saved, Ranks(rank, after, topology)).items():
            _, role, first, count = key.split("\n")
            numbers = np.arange(int(first) // limits_program.BLOCK, limits_program.blocks(int(first) + int(count)))
            assert states["residual"].shape == (int(count),)
            limit = states.get("limit", np.zeros(len(numbers)))
            assert limit.shape == numbers.shape
            # All ranks had the number of the block. A new worker whose old rank was the owner has no value.
            assert set(np.flatnonzero(limit != numbers)) <= set(np.flatnonzero(limit == 0)), (key, role)
    wrong = {key: {"limit": values["residual"]} for key, values in saved[0].items()}
    with pytest.raises(InvalidArgument, match=r"the state 'limit' of 'a' has .* it is of another codec"):
        states_for(tensors, [wrong], Ranks(0, 1, topology))
