# SPDX-License-Identifier: Apache-2.0
"""TorchState and ElasticSampler within one world, with Horovod's meaning."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.errors import Mismatch
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.timeout(120)


def _model(value: float) -> torch.nn.Linear:
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(value)
    return model


def _values(model: torch.nn.Module) -> list[float]:
    return [float(each.detach().flatten()[0]) for each in model.parameters()]


def _synchronised() -> list[Any]:
    hp.init()
    model = _model(1.0 + hp.rank())
    plain = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + hp.rank()), momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 3 + hp.rank())
    state = hp.elastic.TorchState(model, plain, scheduler=scheduler, batch=20 + hp.rank(), names=["a", hp.rank()])
    state.sync()
    seen: list[Any] = [_values(model), state.batch, state.names, plain.param_groups[0]["lr"], scheduler.step_size]
    with torch.no_grad():
        model.weight.fill_(7.0)
    state.batch = 21
    state.restore()
    seen += [_values(model), state.batch]
    with torch.no_grad():
        model.weight.fill_(8.0)
    state.batch = 22
    state.commit()
    state.batch = 23
    state.restore()
    return [*seen, _values(model), state.batch]


def test_all_ranks_get_the_state_of_rank_0_and_go_back_to_commits() -> None:
    expected = [[1.0, 1.0], 20, ["a", 0], 0.1, 3, [1.0, 1.0], 20, [8.0, 1.0], 22]
    assert run(_synchronised, 2) == [expected, expected]


def _restored_momentum(codec: str) -> list[bytes]:
    """The parameters after two steps, and after the same two steps from a commit."""
    hp.init()
    torch.manual_seed(hp.rank())
    model = torch.nn.Linear(40, 20)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        model.named_parameters(),
        codec=codec,
        min_compress_bytes=0,
    )
    state = hp.elastic.TorchState(model, optimizer, step=0)

    def steps(count: int) -> bytes:
        for _ in range(count):
            inputs = torch.randn(4, 40, generator=torch.Generator().manual_seed(10 * state.step + hp.rank()))
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            state.step += 1
        return b"".join(each.detach().numpy().tobytes() for each in model.parameters())

    state.sync()
    steps(3)
    state.commit()
    first = steps(2)
    state.restore()
    return [first, steps(2)]


@pytest.mark.parametrize("codec", ["none", "onebit", "dgc", "powersgd", "int8_shared", "terngrad"])
def test_restored_codecs_go_on_with_the_same_bits(codec: str) -> None:
    results = run(_restored_momentum, 2, codec)
    assert {bits for of_rank in results for bits in of_rank} == {results[0][0]}


def _commits() -> None:
    hp.init()
    model = _model(1.0)
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    state = hp.elastic.TorchState(model, optimizer)
    state.commit()
    if hp.rank() == 1:
        optimizer._hipress.stepped()  # a step without gradients, which the other rank has not made
    state.commit()


def test_commits_after_other_steps_are_a_mismatch() -> None:
    for error in outcomes(_commits, 2):
        assert isinstance(error, Mismatch)
        assert "rank 0 has made 0 commits and 0 steps, rank 1 0 commits and 1 steps" in str(error)


def _sampled() -> list[Any]:
    hp.init()
    data = list(range(10))
    sampler = hp.elastic.ElasticSampler(data, shuffle=False)
    state = hp.elastic.TorchState(sampler=sampler)
    state.sync()
    seen: list[Any] = [list(sampler), len(sampler)]
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    state.restore()
    seen += [sampler.processed_num, list(sampler)]
    sampler.set_epoch(1)
    shuffled = hp.elastic.ElasticSampler(data, seed=3)
    first = list(shuffled)
    shuffled.set_epoch(1)
    return [*seen, len(sampler), sorted(first), first != list(shuffled)]


def test_a_sampler_shares_what_has_not_been_seen() -> None:
    first, second = run(_sampled, 2)
    assert first[:5] == [[0, 2, 4, 6, 8], 5, 4, [4, 6, 8], 5]
    assert second[:5] == [[1, 3, 5, 7, 9], 5, 4, [5, 7, 9], 5]
    assert sorted(first[5] + second[5]) == list(range(10))
    assert first[6]


def test_ranks_with_unequal_rests_get_the_first_samples_twice() -> None:
    hp.shutdown()
    hp.init()
    sampler = hp.elastic.ElasticSampler(range(5), shuffle=False)
    sampler.num_replicas, sampler.rank = 3, 2
    sampler.num_samples, sampler.total_size = 2, 6
    assert list(sampler) == [2, 0]
    hp.shutdown()
