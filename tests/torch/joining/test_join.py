# SPDX-License-Identifier: Apache-2.0
"""join(): ranks with fewer batches wait, and the others go on, as in Horovod's tests of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.errors import PeerLost, Unsupported
from tests.torch.ranks import outcomes, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def _first(first: int) -> tuple[int, list[float]]:
    hp.init()
    averages = []
    if hp.rank() != first:
        for step in range(3):
            handles = [
                hp.allreduce_async(torch.full((1000,), float(value)), name=f"{step}.{value}") for value in (3, 6)
            ]
            averages += [float(hp.synchronize(handle)[0]) for handle in handles]
    last = hp.join()
    assert last != first
    assert hp.allgather_object(last) == [last] * hp.size()
    return last, averages


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_joined_rank_counts_as_zeros_in_averages_over_all_ranks(first: int) -> None:
    for rank, (_, averages) in enumerate(run(_first, 3, first)):
        assert averages == ([] if rank == first else [2.0, 4.0] * 3)


def _one_after_the_other(codec: str, topology: str) -> list[float]:
    hp.init()
    sums = []
    for turn in range(hp.rank() * 2):  # rank 0 joins at once, rank 3 after six turns
        name = f"turn {turn}" if codec == "none" else "kept"
        values = torch.full((50, 100), 2.0)
        sums.append(float(hp.allreduce(values, op=hp.Sum, name=name, codec=codec, topology=topology)[1, 2]))
    assert hp.join() == hp.size() - 1
    return sums


@pytest.mark.parametrize("codec", ["none", "onebit", "powersgd", "int8_shared"])
@pytest.mark.parametrize("topology", ["ps", "ring"])
def test_ranks_join_one_after_the_other(codec: str, topology: str) -> None:
    sums = run(_one_after_the_other, 4, codec, topology)
    for rank, of_rank in enumerate(sums):
        expected = [2.0 * (4 - 1 - turn // 2) for turn in range(2 * rank)]
        np.testing.assert_allclose(of_rank, expected, rtol=0.02)


def _epochs() -> tuple[list[bytes], list[int]]:
    """Ranks with other numbers of batches in each epoch, as a sampler that does not pad makes them."""
    hp.init(check_replicas=0)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(40, 70), nn.ReLU(), nn.Linear(70, 3))
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hp.DistributedOptimizer(plain, model.named_parameters(), codec="onebit", min_compress_bytes=64)
    replicas, lasts = [], []
    for epoch in range(3):
        for step in range(3 + (hp.rank() + epoch) % 3):
            generator = torch.Generator().manual_seed(100 * epoch + 10 * step + hp.rank())
            optimizer.zero_grad()
            model(torch.randn(5, 40, generator=generator)).square().mean().backward()
            optimizer.step()
        lasts.append(hp.join())
        hp.broadcast_parameters(model.state_dict(), root_rank=lasts[-1])
        replicas.append(b"".join(each.detach().numpy().tobytes() for each in model.parameters()))
        assert float(hp.allreduce(torch.tensor([1.0]))) == 1.0  # without a name
    assert hp.codec_states(optimizer)
    return replicas, lasts


def test_epochs_of_different_lengths_with_one_optimizer() -> None:
    first, second, third = run(_epochs, 3)
    assert first == second == third
    assert first[1] == [2, 1, 0]


def _residual() -> None:
    hp.init()
    weight = nn.Parameter(torch.zeros(5000))
    optimizer = hp.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)], codec="onebit")

    def step() -> None:
        generator = torch.Generator().manual_seed(hp.rank())
        weight.grad = None
        (weight * torch.randn(5000, generator=generator)).sum().backward()
        optimizer.step()

    step()
    before = hp.codec_states(optimizer, exact=True)["w/residual"].clone()
    if hp.rank() != 1:
        step()
        step()
    hp.join()
    states = hp.codec_states(optimizer, exact=True)
    if hp.rank() != 1:
        assert not torch.equal(states["w/residual"], before)
        return
    # Error feedback takes no part: the elements that this rank encodes as a worker keep their residuals.
    first = kept = 0
    for count, role, _ in states["w:stretches"].long().tolist():
        if role == 1:
            part = slice(first, first + count)
            assert torch.equal(states["w/residual"][part], before[part])
            kept += count
        first += count
    assert kept > 0


def test_the_residual_of_a_joined_rank_stays_as_it_is() -> None:
    run(_residual, 3)


def _others_collectives() -> None:
    hp.init()
    if hp.rank() == 0:
        hp.join()
    else:
        time.sleep(0.3)
        for call in (
            lambda: hp.allgather(torch.ones(2), name="gather"),
            lambda: hp.broadcast(torch.ones(2), 1, name="broadcast"),
            lambda: hp.reducescatter(torch.ones(6), name="scatter"),
            lambda: hp.alltoall(torch.ones(3), name="exchange"),
        ):
            with pytest.raises(Unsupported, match=r"rank 0 has called join\(\), and only all-reduces go on"):
                call()
        with pytest.raises(Unsupported, match=r"rank 0 has called join\(\), and takes no part"):
            hp.add_process_set([1, 2])
        assert float(hp.allreduce(torch.tensor([3.0]), name="goes on")) == 2.0
        hp.join()
    rows: Any = hp.allgather(torch.tensor([hp.rank()]), name="gather")
    assert rows.tolist() == [0, 1, 2]
    assert hp.add_process_set([1, 2]).process_set_id == 1


def test_other_collectives_are_refused_until_all_ranks_have_joined() -> None:
    run(_others_collectives, 3)


def _late_notice() -> None:
    """The others' operation is in flight when the rank joins."""
    hp.init()
    if hp.rank() == 0:
        time.sleep(0.5)
        hp.join()
    else:
        with pytest.raises(Unsupported, match=r"called join"):
            hp.allgather(torch.ones(2), name="gather")
        assert float(hp.allreduce(torch.tensor([3.0]), name="x")) == 1.5
        hp.join()


def test_an_operation_in_flight_goes_on_when_a_rank_joins() -> None:
    run(_late_notice, 2)


def _in_a_set() -> list[float]:
    hp.init()
    pair = hp.add_process_set([0, 1])
    if hp.rank() == 2:
        time.sleep(0.2)
    results = []
    if hp.rank() != 1:
        time.sleep(0.5)  # rank 1 has joined
        results.append(float(hp.allreduce(torch.tensor([6.0]), name="all")))
    if hp.rank() == 0:
        results.append(float(hp.allreduce(torch.tensor([6.0]), name="pair", process_set=pair)))
    hp.join()
    return results


def test_a_joined_rank_takes_part_in_process_sets() -> None:
    assert run(_in_a_set, 3) == [[4.0, 3.0], [], [4.0]]


def _lost() -> None:
    hp.init()
    if hp.rank() == 1:
        return  # it ends without join()
    hp.join()


def test_a_rank_that_ends_without_join_is_named() -> None:
    waiting, _ = outcomes(_lost, 2)
    assert isinstance(waiting, PeerLost)
    assert "rank 1 has left" in str(waiting)
