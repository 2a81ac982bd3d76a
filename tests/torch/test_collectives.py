# SPDX-License-Identifier: Apache-2.0
"""allreduce, broadcast and their asynchronous forms do what Horovod's do."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
import torch

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _places() -> tuple[int, int, int, int]:
    assert not hp.is_initialized()
    hp.init()
    hp.init()  # a second init() does nothing
    return hp.rank(), hp.size(), hp.local_rank(), hp.local_size()


def test_ranks_know_their_place() -> None:
    assert run(_places, 3) == [(rank, 3, rank, 3) for rank in range(3)]


def _allreduce() -> None:
    hp.init()
    n = hp.size()
    mean = (n - 1) / 2
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for shape in ((), (0,), (1,), (3, 5), (70_000,)):
            values = torch.full(shape, float(hp.rank()), dtype=dtype)
            assert torch.equal(hp.allreduce(values), torch.full(shape, mean, dtype=dtype))
            assert torch.equal(hp.allreduce(values, op=hp.Sum), torch.full(shape, mean * n, dtype=dtype))
            assert torch.equal(values, torch.full(shape, float(hp.rank()), dtype=dtype))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        assert hp.allreduce(torch.tensor([5, 6], dtype=dtype), op=hp.Sum).tolist() == [5 * n, 6 * n]
    assert hp.allreduce(torch.tensor([hp.rank() == 0, False]), op=hp.Sum).tolist() == [True, False]
    assert hp.allreduce(torch.ones(3), average=False).tolist() == [n] * 3
    in_place = torch.full((4,), float(hp.rank()))
    assert hp.allreduce_(in_place) is in_place
    assert in_place.tolist() == [mean] * 4
    scaled = hp.allreduce(torch.ones(2), op=hp.Sum, prescale_factor=0.5, postscale_factor=3.0)
    assert scaled.tolist() == [1.5 * n] * 2


@pytest.mark.parametrize("world_size", [1, 3])
def test_allreduce(world_size: int) -> None:
    run(_allreduce, world_size)


def _asynchronous() -> list[float]:
    hp.init()
    handles = [hp.allreduce_async(torch.full((1000,), float(index)), name=f"t{index}") for index in range(30)]
    if hp.rank() == 1:
        handles.reverse()
    results = [float(hp.synchronize(handle)[0]) for handle in handles]
    handle = hp.allreduce_async_(torch.ones(5))
    while not hp.poll(handle):
        pass
    assert hp.synchronize(handle).tolist() == [1.0] * 5
    return sorted(results)


def test_operations_overlap_and_may_be_waited_for_in_any_order() -> None:
    assert run(_asynchronous, 2) == [[float(index) for index in range(30)]] * 2


def _different_orders() -> list[float]:
    hp.init()
    names = ["a", "b", "c"] if hp.rank() == 0 else ["c", "a", "b"]
    handles = {name: hp.allreduce_async(torch.full((9,), float(ord(name))), name=name) for name in names}
    return [float(hp.synchronize(handles[name])[0]) for name in "abc"]


def test_named_operations_may_be_started_in_different_orders() -> None:
    assert run(_different_orders, 2) == [[97.0, 98.0, 99.0]] * 2


def _broadcast() -> None:
    hp.init()
    for root in range(hp.size()):
        for dtype in (torch.float32, torch.bool, torch.int64, torch.bfloat16):
            for count in (0, 1, 70_000, 3_000_000):
                values = torch.full((count,), hp.rank() == root).to(dtype)
                result = hp.broadcast(values, root_rank=root)
                assert bool(result.to(torch.bool).all()), (root, dtype, count)
                assert torch.equal(values, torch.full((count,), hp.rank() == root).to(dtype))
        values = torch.tensor([hp.rank()])
        assert hp.broadcast_(values, root_rank=root) is values
        assert values.item() == root
        assert hp.broadcast_object({"from": hp.rank(), "list": [1, 2]}, root_rank=root) == {
            "from": root,
            "list": [1, 2],
        }


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_broadcast(world_size: int) -> None:
    run(_broadcast, world_size)


def _parameters() -> dict[str, Any]:
    hp.init()
    torch.manual_seed(hp.rank())
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    model.register_buffer("transposed", torch.randn(5, 7).t())
    hp.broadcast_parameters(model.state_dict(), root_rank=1)
    state = {name: value.tolist() for name, value in model.state_dict().items()}
    hp.broadcast_parameters(model.named_parameters(), root_rank=0)
    return state


def test_parameters_of_any_memory_layout_are_broadcast() -> None:
    results = run(_parameters, 2)
    assert results[0] == results[1]


def _differentiable() -> list[float]:
    hp.init()
    values = torch.ones(3, requires_grad=True)
    (hp.allreduce(values, op=hp.Sum, name="x") * (hp.rank() + 1)).sum().backward()
    assert values.grad is not None
    return values.grad.tolist()


def test_allreduce_is_differentiable() -> None:
    assert run(_differentiable, 2) == [[3.0] * 3] * 2


def _compressed() -> tuple[float, int]:
    hp.init()
    generator = torch.Generator().manual_seed(hp.rank())
    values = torch.randn(1_000_000, generator=generator)
    exact = hp.allreduce(values)
    before = hp.counters()["bytes_sent"]
    result = hp.allreduce(values, name="x", codec="fp16")
    sent = hp.counters()["bytes_sent"] - before
    return float((result - exact).norm() / exact.norm()), sent


def test_allreduce_with_a_codec() -> None:
    for error, sent in run(_compressed, 2):
        assert error < 1e-3
        assert sent < 2_010_000


def _many_inits() -> int:
    hp.init()
    hp.allreduce(torch.ones(10))
    first = hp.counters()["messages_sent"]
    hp.shutdown()
    assert not hp.is_initialized()
    with pytest.raises(hp.NotInitialized):
        hp.rank()
    return first


def test_shutdown_ends_it() -> None:
    assert all(sent > 0 for sent in run(_many_inits, 2))


def _forked_child() -> tuple[bool, str]:
    hp.init()
    receiver, sender = multiprocessing.get_context("fork").Pipe()

    def child() -> None:
        try:
            hp.rank()
        except hp.NotInitialized:
            hp.shutdown()
            sender.send(hp.is_initialized())

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20.0)
    return receiver.recv(), str(hp.allreduce(torch.ones(2)).tolist())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_no_part_in_it() -> None:
    assert run(_forked_child, 2) == [(False, "[1.0, 1.0]")] * 2
