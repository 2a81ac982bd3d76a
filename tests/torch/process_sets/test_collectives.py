# SPDX-License-Identifier: Apache-2.0
"""Collectives, their derivatives and objects among the ranks of process sets, as Horovod's tests of them have it."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

EVEN, ODD = [0, 2], [1, 3]


def _sets() -> tuple[hp.ProcessSet, hp.ProcessSet, hp.ProcessSet]:
    """The two sets, and the one of this rank."""
    hp.init()
    even, odd = hp.add_process_set(EVEN), hp.add_process_set(hp.ProcessSet(reversed(ODD)))
    return even, odd, even if even.included() else odd


def _places() -> tuple[Any, ...]:
    even, odd, mine = _sets()
    everybody = hp.global_process_set
    assert str(everybody) == "ProcessSet(process_set_id=0, ranks=[0, 1, 2, 3], mpi_comm=None)"
    assert (everybody.size(), everybody.rank(), everybody.included()) == (4, hp.rank(), True)
    assert (even.process_set_id, odd.process_set_id) == (1, 2)
    return mine.ranks, mine.size(), mine.rank(), even.included(), odd.included()


def test_a_set_knows_its_ranks_and_this_rank() -> None:
    assert run(_places, 4) == [
        (EVEN, 2, 0, True, False),
        (ODD, 2, 0, False, True),
        (EVEN, 2, 1, True, False),
        (ODD, 2, 1, False, True),
    ]


def _all_collectives() -> None:
    _, _, mine = _sets()
    rank, ranks = hp.rank(), mine.ranks
    mean = sum(ranks) / 2
    own = torch.full((70_000,), float(rank))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        values = own.to(dtype)
        assert torch.equal(hp.allreduce(values, process_set=mine), torch.full_like(values, mean))
    # Both sets use this name at the same time, and all ranks together use it, too.
    handles = [hp.allreduce_async(own, name="w", op=hp.Sum, process_set=each) for each in (mine, hp.global_process_set)]
    assert [float(hp.synchronize(each)[0]) for each in handles] == [2 * mean, 6.0]
    assert hp.allreduce_(own.clone(), op=hp.Max, process_set=mine)[0] == ranks[1]
    several = hp.grouped_allreduce([torch.ones(3), own], op=hp.Sum, process_set=mine)
    assert [float(each[0]) for each in several] == [2.0, 2 * mean]
    assert hp.broadcast(own, ranks[1], process_set=mine)[5] == ranks[1]
    assert hp.broadcast_(own.clone(), ranks[0], "b", mine)[5] == ranks[0]
    rows = hp.allgather(torch.full((rank + 1, 2), rank), process_set=mine)
    assert rows[:, 0].tolist() == [ranks[0]] * (ranks[0] + 1) + [ranks[1]] * (ranks[1] + 1)
    assert [each.tolist() for each in hp.grouped_allgather([torch.tensor([rank])] * 2, process_set=mine)] == [ranks] * 2
    scattered = hp.reducescatter(torch.arange(5.0), op=hp.Sum, process_set=mine)
    assert scattered.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0]][mine.rank()]
    moved, received = hp.alltoall(torch.arange(3) + 10 * rank, [1, 2], process_set=mine)
    first, count = (0, 1) if mine.rank() == 0 else (1, 2)
    assert moved.tolist() == [10 * each + first + k for each in ranks for k in range(count)]
    assert received.tolist() == [count, count]
    sparse = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.tensor([1.0]), (4,))
    gathered = hp.synchronize(hp.sparse_allreduce_async(sparse, "s", hp.Sum, mine))
    assert gathered.to_dense().nonzero().flatten().tolist() == ranks
    hp.barrier(mine)
    assert hp.allgather_object({"rank": rank}, process_set=mine) == [{"rank": each} for each in ranks]
    assert hp.broadcast_object(("from", rank), ranks[1], process_set=mine) == ("from", ranks[1])
    compressed = hp.allreduce(own, name="c", codec="onebit", process_set=mine)
    assert torch.equal(compressed, torch.full_like(compressed, mean))


def test_every_collective_is_among_the_ranks_of_its_set() -> None:
    run(_all_collectives, 4)


def _derivatives() -> None:
    _, _, mine = _sets()
    rank, ranks = float(hp.rank()), mine.ranks
    mean = sum(ranks) / 2

    def gradient(collective: Any) -> list[float]:
        values = torch.ones(4, requires_grad=True)
        result = collective(values)
        (result * (rank + torch.arange(result.numel()))).sum().backward()
        assert values.grad is not None
        return values.grad.tolist()

    counted = [mean + k for k in range(4)]
    assert gradient(lambda x: hp.allreduce(x, process_set=mine)) == counted
    assert gradient(lambda x: hp.allreduce(x, op=hp.Sum, process_set=mine)) == [2 * each for each in counted]
    is_root = hp.rank() == ranks[1]
    assert gradient(lambda x: hp.broadcast(x, ranks[1], process_set=mine)) == (counted if is_root else [0.0] * 4)
    own_rows = [mean + 4 * mine.rank() + k for k in range(4)]
    assert gradient(lambda x: hp.allgather(x, process_set=mine)) == own_rows
    halves = [float(each) + k for each in ranks for k in range(2)]
    assert gradient(lambda x: hp.reducescatter(x, op=hp.Sum, process_set=mine)) == [2 * each for each in halves]
    back = [float(each) + 2 * mine.rank() + k for each in ranks for k in range(2)]
    assert gradient(lambda x: hp.alltoall(x, process_set=mine)) == back


def test_derivatives_are_among_the_ranks_of_the_set() -> None:
    run(_derivatives, 4)


def _alone() -> list[float]:
    hp.init()
    lonely = hp.add_process_set([1])
    if not lonely.included():
        return []
    return hp.allreduce(torch.tensor([3.0]), process_set=lonely).tolist()  # type: ignore[no-any-return]


def test_a_set_of_one_rank_does_not_wait_for_the_others() -> None:
    assert run(_alone, 2) == [[], [3.0]]


def _overlapping() -> int:
    hp.init()
    rank = hp.rank()
    sets = [hp.add_process_set(ranks) for ranks in ([0, 1], [1, 2], [0, 2])]
    mine = [(number, each) for number, each in enumerate(sets) if each.included()] + [(3, hp.global_process_set)]
    calls = [(number, each, turn) for number, each in mine for turn in range(100)]
    random.Random(rank).shuffle(calls)  # another order on each rank
    handles = [
        (each, hp.allreduce_async(torch.tensor([float(rank)]), name=f"{number}.{turn}", op=hp.Sum, process_set=each))
        for number, each, turn in calls
    ]
    for each, handle in handles:
        assert float(hp.synchronize(handle)) == sum(each.ranks)
    return len(handles)


def test_overlapping_sets_may_be_used_in_any_order() -> None:
    assert run(_overlapping, 3) == [300, 300, 300]


def _added_and_removed() -> None:
    hp.init()
    first, second = hp.add_process_set([0]), hp.add_process_set([1, 2])
    number = first.process_set_id
    assert hp.remove_process_set(first)
    assert (first.process_set_id, first.ranks) == (None, [0])
    assert not hp.remove_process_set(first)
    third = hp.add_process_set([0, 2])
    assert third.process_set_id == number  # as in Horovod
    again = hp.add_process_set(first)
    assert again is first
    if again.included():
        assert hp.allreduce(torch.ones(2), name="x", process_set=again).tolist() == [1.0, 1.0]
    if second.included():
        assert hp.allreduce(torch.ones(2), name="x", process_set=second).tolist() == [1.0, 1.0]
    for each in (again, second, third):
        assert hp.remove_process_set(each)
    assert not hp.remove_process_set(hp.global_process_set)
    renewed = hp.add_process_set([1, 2])  # the same ranks again, and the same name
    if renewed.included():
        assert hp.allreduce(torch.full((3,), 2.0), name="x", process_set=renewed).tolist() == [2.0] * 3


def test_sets_can_be_added_and_removed_at_any_time() -> None:
    run(_added_and_removed, 3)


def _at_the_start() -> list[Any]:
    import hipress.horovod.torch as hvd

    sets: list[Any] = [hvd.ProcessSet([0]), hvd.ProcessSet([2, 1]), hvd.ProcessSet([0, 1, 2]), hvd.ProcessSet([0])]
    hvd.init(process_sets=sets)
    return [each.process_set_id for each in sets] + [sets[2].size()]


def test_horovods_init_adds_sets_and_gives_equal_ones_one_number() -> None:
    assert run(_at_the_start, 3) == [[1, 2, 0, 1, 3]] * 3
