# SPDX-License-Identifier: Apache-2.0
"""DiLoCo(..., weighted=True): averages weighted by what each rank has counted since its last exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.errors import InvalidArgument, Mismatch
from hipress.torch.diloco.members.quorum import Quorum
from hipress.torch.diloco.tokens import Tokens
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.optim import problem
from tests.torch.ranks import run

#: What each of three ranks counts in each of four steps, and so 2 exchanges.
COUNTS = [[1, 1, 0, 0], [2, 1, 0, 5], [0.5, 0, 0, 0]]


def _weighted(folder: str, counts: list[list[float]], options: dict[str, Any]) -> list[tuple[Any, Any]]:
    """After each exchange the outer parameters, and this rank's own ones before it."""
    with problem.carried(folder) as (rank, carrier):
        model = models.mlp(0, 24)
        optimizer = replay.inner_optimizer(model)
        diloco = hp.DiLoCo(model, optimizer, preset="local_sgd", sync_every=2, weighted=True, **options, **carrier)
        twin = models.mlp(0, 24)  # trains as the model does, and never meets the others
        twin_optimizer = replay.inner_optimizer(twin)
        found = []
        for step, count in enumerate(counts[rank], 1):
            diloco.count(count)
            replay.inner_step(twin, twin_optimizer, rank, step)
            replay.inner_step(model, optimizer, rank, step)
            if step % 2 == 0:
                own = replay.values_of(twin)
                with diloco.outer_parameters():
                    found.append((replay.values_of(model), own))
                twin.load_state_dict(model.state_dict())
        diloco.detach()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["engine", "group"])
def test_outer_parameters_are_the_weighted_mean(carrier: str, tmp_path: Any) -> None:
    folder = str(tmp_path) if carrier == "group" else ""
    ranks = run(_weighted, 3, folder, COUNTS, {})
    for exchange in range(2):
        weights = np.array([sum(each[2 * exchange : 2 * exchange + 2]) for each in COUNTS])
        for name, outer in ranks[0][exchange][0].items():
            mean = sum(weight * own[exchange][1][name] for weight, own in zip(weights, ranks, strict=True))
            np.testing.assert_allclose(outer, mean / weights.sum(), rtol=1e-5, atol=1e-6)
            for rank in range(3):
                assert np.array_equal(outer, ranks[rank][exchange][0][name])


@pytest.mark.slow
def test_equal_weights_and_none_give_the_bits_of_an_average_without_weights() -> None:
    def outer(counts: list[list[float]]) -> Any:
        return run(_weighted, 3, "", counts, {"codec": "int8"})[0]

    equal, none = outer([[7] * 4] * 3), outer([[0] * 4] * 3)
    for (one, _), (other, _) in zip(equal, none, strict=True):
        assert all(np.array_equal(each, other[name]) for name, each in one.items())


def _saved(stop: int) -> tuple[Any, Any]:
    """The outer parameters of a training that is saved and restored after `stop` steps, and of one that is not."""
    hp.init()
    found = []
    for restarts in (True, False):
        model = models.mlp(0, 24)
        optimizer = replay.inner_optimizer(model)
        options: dict[str, Any] = {"sync_every": 6, "fragments": 3, "overlap_steps": 1, "weighted": True}
        diloco = hp.DiLoCo(model, optimizer, **options)
        for step in range(1, 14):
            if restarts and step == stop:
                states = [each.state_dict() for each in (model, optimizer, diloco)]
                diloco.detach()
                model = models.mlp(1, 24)
                optimizer = replay.inner_optimizer(model)
                diloco = hp.DiLoCo(model, optimizer, **options)
                for each, state in zip((model, optimizer, diloco), states, strict=True):
                    each.load_state_dict(state)  # type: ignore[attr-defined]
            diloco.count(step * (1 + hp.rank()) + hp.rank())
            replay.inner_step(model, optimizer, hp.rank(), step)
        diloco.detach()
        with diloco.outer_parameters():
            found.append(replay.values_of(model))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 4, 5, 8])
def test_a_restart_keeps_the_counts(stop: int) -> None:
    for restarted, steady in run(_saved, 2, stop):
        assert all(np.array_equal(each, steady[name]) for name, each in restarted.items())


def _refusals() -> None:
    hp.init()
    model = models.mlp(0, 24)
    diloco = hp.DiLoCo(model, torch.optim.SGD(model.parameters(), 0.1))
    with pytest.raises(InvalidArgument, match=r"weighted=True"):
        diloco.count(3)
    other = models.mlp(0, 24)
    weighted = hp.DiLoCo(other, torch.optim.SGD(other.parameters(), 0.1), weighted=True)
    for count in (-1, float("nan"), float("inf"), True, "3"):
        with pytest.raises(InvalidArgument, match="a number of at least 0"):
            weighted.count(count)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="only in an elastic job"):
        hp.DiLoCo(other, torch.optim.SGD(other.parameters(), 0.1), quorum=2)
    with pytest.raises(Mismatch, match="the ranks differ in weighted"):
        hp.DiLoCo(other, torch.optim.SGD(other.parameters(), 0.1), weighted=hp.rank() == 1)


@pytest.mark.slow
def test_wrong_counts_and_arguments_are_refused() -> None:
    run(_refusals, 2)


@pytest.mark.parametrize(
    "numbers", [{"least": 0}, {"least": True}, {"least": 2, "grace": -1}, {"least": 2, "most_late": 0}, {"least": 1.5}]
)
def test_a_quorum_takes_its_own_numbers_only(numbers: Any) -> None:
    with pytest.raises(InvalidArgument, match="give a"):
        Quorum(**numbers)


def test_tokens_count_since_the_last_exchange_of_each_fragment() -> None:
    tokens = Tokens(2)
    tokens.total += 5
    begun = tokens.total
    tokens.total += 3
    tokens.sent(0, begun)
    assert (tokens.since(0), tokens.since(1)) == (3, 8)
    other = Tokens(2)
    other.load(tokens.saved())
    other.total += 1
    assert (other.since(0), other.since(1)) == (4, 9)
