# SPDX-License-Identifier: Apache-2.0
"""A batch can travel in several portions, which bounds the memory of their collectives."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress._library import load_core
from hipress.torch.process_groups import GroupAverage, GroupOptions, slots
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.layout import HEADER_BYTES, Compressed, Layout
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import HostSide
from tests.torch.ddp import training
from tests.torch.ranks import outcomes, run

#: An empty tensor, a tensor without a codec, and larger tensors.
COUNTS = {"none": 0, "vector": 1500, "few": 3000, "many": 70_001, "large": 400_000}
WORLD = 4


def _slots(
    exact: Sequence[slots.ExactSlots] = (), *, topology: str = "ps", portion_bytes: int = 4 << 20
) -> list[slots.Slots]:
    codec = load_core().create_codec("int8")
    ranks = Ranks(1, WORLD, topology)
    layout = Layout([Compressed(name, count, codec) for name, count in COUNTS.items()], ranks)
    side = HostSide()
    arenas = Arenas(side, 1 << 20)
    return slots.slots_of(layout, exact, ranks, portion_bytes=portion_bytes, side=side, arenas=arenas)


@pytest.mark.parametrize("topology", ["ps", "allgather", "ring"])
def test_portions_together_have_all_bytes(topology: str) -> None:
    (one,) = _slots(topology=topology)
    several = _slots(topology=topology, portion_bytes=50_000)
    assert len(several) > 1
    for hop in one.runs[:-1]:
        parts = [part.sent(hop) for part in several if hop < len(part.runs) - 1]
        assert [sum(each) for each in zip(*parts, strict=True)] == one.sent(hop)


def test_values_without_a_codec_are_not_counted() -> None:
    exact = [slots.ExactSlots(5000, torch.float32, True), slots.ExactSlots(6000, torch.bfloat16, False)]
    (without,), (beside,) = _slots(), _slots(exact)
    for hop in (0, 1):
        assert beside.sent(hop) == without.sent(hop)
    pieces = [4 * count for _, count in load_core().split_elements(5000, WORLD)]
    pieces += [2 * count for _, count in load_core().split_elements(6000, WORLD)]
    more = sum(HEADER_BYTES + piece + -piece % 16 for piece in pieces)
    # What it sends of all and gets from all, and at the same time the same for its own part.
    assert beside.arena_bytes - without.arena_bytes < 2 * more + 2 * max(pieces)


def _cleared(arena: torch.Tensor) -> None:
    arena.zero_()


def test_the_next_step_uses_the_memory_again() -> None:
    arenas = Arenas(HostSide(), 1 << 20)
    first, second = arenas.take(1000, 0, _cleared), arenas.take(2000, 0, _cleared)
    assert first.data_ptr() != second.data_ptr()
    at = first.data_ptr(), second.data_ptr()
    first.fill_(7)
    arenas.give_back(second)
    arenas.give_back(first)
    arenas.forget_unused(0)
    # The smallest that suffices, and only a part of it.
    smaller, larger = arenas.take(900, 1, _cleared), arenas.take(1001, 1, _cleared)
    assert (smaller.data_ptr(), larger.data_ptr()) == at
    assert smaller.tolist() == [7] * 900
    assert larger.numel() == 1001
    arenas.give_back(smaller)
    arenas.forget_unused(2)
    assert arenas.bytes == 2000  # the other one is in use
    arenas.give_back(larger)
    arenas.forget_unused(2)
    assert arenas.bytes == 0
    assert arenas.take(0, 2, _cleared).numel() == 0


def test_memory_in_flight_is_bounded() -> None:
    arenas = Arenas(HostSide(), 10_000)
    taken = [arenas.take(4000, 0, _cleared) for _ in range(4)]  # four in any case
    assert arenas.bytes == 16_000
    with ThreadPoolExecutor(1) as another:
        waiting = another.submit(arenas.take, 3000, 0, _cleared)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        arenas.give_back(taken[2])
        assert waiting.result(60).data_ptr() == taken[2].data_ptr()
        # One that has failed makes room, and nobody gets its memory.
        waiting = another.submit(arenas.take, 6000, 0, _cleared)
        arenas.drop(taken[0])
        found = waiting.result(60)
        assert arenas.bytes == 18_000
        # Too small ones make room for a larger one.
        arenas.give_back(taken[1])
        arenas.give_back(taken[3])
        assert another.submit(arenas.take, 5000, 0, _cleared).result(60).data_ptr() != found.data_ptr()
    assert arenas.bytes <= 19_000


def test_work_that_is_not_done_is_waited_for_only_if_there_must_be_no_more() -> None:
    class Side(HostSide):
        """Marks are numbers; those below `done` are past."""

        number = done = 0
        waited: ClassVar[list[int]] = []

        def settled(self) -> int:
            self.number += 1
            return self.number

        def is_past(self, mark: int | None) -> bool:
            return mark is None or mark < self.done

        def wait_for(self, mark: int | None) -> None:
            if mark is not None and not self.is_past(mark):
                self.waited.append(mark)

    side = Side()
    arenas = Arenas(side, 3000, least=1)
    places = []
    for _ in range(5):
        arena = arenas.take(1000, 0, _cleared)
        places.append(arena.data_ptr())
        arenas.give_back(arena)
    assert len(set(places[:3])) == 3
    assert places[3:] == places[:2]  # the first two came back first
    assert side.waited == [1, 2]
    side.done = 5
    assert arenas.take(1000, 0, _cleared).data_ptr() in places
    assert side.waited == [1, 2]


def _average(portion_bytes: int) -> GroupAverage:
    shapes = {name: TensorShape(count, torch.float32, 1 if name == "vector" else 2) for name, count in COUNTS.items()}
    return GroupAverage(shapes, None, GroupOptions(codec="onebit", min_compress_bytes=0, portion_bytes=portion_bytes))


def _values(rank: int, step: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(count, generator=generator) for name, count in COUNTS.items()}


@training.in_process_group
def _two_steps(rank: int, portion_bytes: int) -> tuple[list[Any], dict[str, Any], int]:
    average = _average(portion_bytes)
    results = []
    for step in range(2):
        tensors = _values(rank, step)
        average.start(list(tensors.items()), step).wait()
        results.append({name: tensor.numpy() for name, tensor in tensors.items()})
    return results, average.state_dict(), average.sent_bytes


@pytest.mark.slow
def test_they_give_the_same_average(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "several").mkdir()
    one = run(_two_steps, 2, str(tmp_path / "one"), 1 << 30)
    several = run(_two_steps, 2, str(tmp_path / "several"), 2000)
    for rank in range(2):
        for step in range(2):
            for name in COUNTS:
                np.testing.assert_array_equal(several[rank][0][step][name], one[0][0][step][name])
        assert pickle.dumps(several[rank][1]) == pickle.dumps(one[rank][1])
        assert several[rank][2] == one[rank][2] > 0


def _leaves(folder: str) -> bool:
    """Whether the step in which rank 1 is missing left the states unchanged."""
    with training.process_group(folder, timeout=4.0) as (rank, _):
        average = _average(2000)
        average.start(list(_values(rank, 0).items()), 0).wait()
        dist.barrier()
        if rank == 1:
            del average
            time.sleep(8.0)
            return True
        before = pickle.dumps(average.state_dict())
        done = average.start(list(_values(rank, 1).items()), 1)
        with pytest.raises(hp.TransportError, match="step 1"):
            done.wait()
        same = pickle.dumps(average.state_dict()) == before
        del average, done
        return same


@pytest.mark.slow
def test_a_lost_rank_changes_no_state_of_any_portion(tmp_path: Path) -> None:
    assert run(_leaves, 2, str(tmp_path)) == [True, True]


@training.in_process_group
def _parts_otherwise(rank: int) -> None:
    _average(2000 + rank)


@pytest.mark.slow
def test_ranks_with_other_portions_are_told_on_all(tmp_path: Path) -> None:
    """Ranks with other portions would start different collectives, and would read payloads as headers."""
    for error in outcomes(_parts_otherwise, 2, str(tmp_path)):
        assert isinstance(error, hp.Mismatch)
        assert "'portion_bytes 2001' where rank 0 has 'portion_bytes 2000'" in str(error)
