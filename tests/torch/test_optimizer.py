# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer keeps replicas identical, and every use of an optimizer works as without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

import hipress.torch as hp
from tests.torch.models import fingerprint, gradients, local_average, loss, mlp
from tests.torch.optimizers import start
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

STEPS = 50


def _train(codec: str, steps: int) -> list[str]:
    hp.init()
    model = mlp(seed=hp.rank())
    optimizer = start(model, codec=codec)
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
    return seen


@pytest.mark.parametrize("codec", ["none", "fp16", "onebit"])
def test_parameters_are_identical_on_all_ranks_after_every_step(codec: str) -> None:
    by_rank = run(_train, 4, codec, STEPS)
    assert all(seen == by_rank[0] for seen in by_rank)
    assert len(set(by_rank[0])) == STEPS


def _gradients_after_backward() -> bool:
    model = mlp()
    optimizer = start(model)
    loss(model, hp.rank(), 0).backward()
    expected = local_average(hp.size(), 0, model)
    del optimizer
    return all(torch.allclose(g, e, atol=1e-6) for g, e in zip(gradients(model), expected, strict=True))


def test_when_backward_returns_gradients_are_averaged() -> None:
    assert run(_gradients_after_backward, 3) == [True] * 3


def _accumulate(how: str) -> tuple[list[torch.Tensor], int]:
    model = mlp()
    optimizer = start(model, backward_passes_per_step=3 if how == "passes" else 1)
    hp.allreduce(torch.zeros(1))
    before = hp.counters()["messages_sent"]
    for step in range(3):
        if how == "no_sync" and step < 2:
            with optimizer.no_sync():
                loss(model, hp.rank(), step).backward()
        else:
            loss(model, hp.rank(), step).backward()
    sent = hp.counters()["messages_sent"] - before
    result = [g for g in gradients(model) if g is not None]
    optimizer.step()
    return result, sent


@pytest.mark.parametrize("how", ["passes", "no_sync", "every pass"])
def test_gradient_accumulation(how: str) -> None:
    model = mlp()
    expected = [sum(parts) for parts in zip(*(local_average(2, step, model) for step in range(3)), strict=True)]
    results = run(_accumulate, 2, how)
    for result, _ in results:
        assert all(torch.allclose(g, e, atol=1e-5) for g, e in zip(result, expected, strict=True))
    tensors = len(list(model.parameters()))
    rounds = 3 if how == "every pass" else 1
    # With two ranks, each rank sends at least one message per tensor and synchronisation round.
    assert all(sent >= tensors * rounds and sent < 4 * tensors * rounds for _, sent in results)


def _tail_of_an_epoch() -> list[str]:
    model = mlp()
    optimizer = start(model, backward_passes_per_step=4)
    seen = []
    for step in range(6):  # the second optimizer step comes after two passes only
        loss(model, hp.rank(), step).backward()
        if step in (3, 5):
            optimizer.step()
            optimizer.zero_grad()
            seen.append(fingerprint(model))
    return seen


def test_a_step_before_all_passes_synchronises_what_there_is() -> None:
    by_rank = run(_tail_of_an_epoch, 2)
    assert by_rank[0] == by_rank[1]
    assert len(set(by_rank[0])) == 2


class Branches(nn.Module):
    """A model that uses `left`, `right` or both, and never `unused`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shared = nn.Linear(16, 70)
        self.left = nn.Linear(70, 4)
        self.right = nn.Linear(70, 4)
        self.unused = nn.Linear(3, 3)

    def forward(self, inputs: torch.Tensor, branch: str) -> torch.Tensor:
        hidden = self.shared(inputs).relu()
        return self.left(hidden) if branch == "left" else self.right(hidden)


def _unused_parameters(codec: str) -> tuple[list[str], bool, bool]:
    hp.init()
    model = Branches()
    optimizer = start(model, codec=codec, min_compress_bytes=0)
    seen = []
    both_used = True
    for step in range(5):
        optimizer.zero_grad()
        inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(step * 10 + hp.rank()))
        model(inputs, "left" if hp.rank() == 0 else "right").square().mean().backward()
        both_used &= model.left.weight.grad is not None and model.right.weight.grad is not None
        optimizer.step()
        seen.append(fingerprint(model))
    return seen, both_used, model.unused.weight.grad is None


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_parameters_unused_on_some_ranks_count_as_zero_there(codec: str) -> None:
    results = run(_unused_parameters, 2, codec)
    assert results[0] == results[1]
    seen, both_used, unused_stays_none = results[0]
    assert len(set(seen)) == 5
    assert both_used
    assert unused_stays_none


def _rank_without_backward() -> list[str]:
    hp.init()
    model = mlp()
    optimizer = start(model)
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        if not (step == 1 and hp.rank() == 1):
            loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
    return seen


def test_a_rank_may_have_nothing_to_contribute_to_a_step() -> None:
    by_rank = run(_rank_without_backward, 2)
    assert by_rank[0] == by_rank[1]


def _changing_requires_grad() -> tuple[list[str], list[bool]]:
    hp.init()
    model = mlp()
    model[2].requires_grad_(False)
    optimizer = start(model)
    seen, changed = [], []
    for step in range(6):
        model[2].requires_grad_(step >= 2)
        model[0].requires_grad_(step < 4)
        frozen = model[0] if step >= 4 else model[2]
        before = frozen.weight.detach().clone()
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
        changed.append(not torch.equal(before, frozen.weight))
    return seen, changed


def test_requires_grad_may_change_during_training() -> None:
    results = run(_changing_requires_grad, 2)
    assert results[0] == results[1]
    assert results[0][1] == [False, False, True, True, False, False]


def _clip(recipe: str) -> tuple[str, float]:
    model = mlp()
    optimizer = start(model)
    loss(model, hp.rank(), 0).backward()
    if recipe == "horovod":
        optimizer.synchronize()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    if recipe == "horovod":
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()
    clipped = torch.cat([g.flatten() for g in gradients(model) if g is not None]).norm()
    assert clipped <= 0.0101
    return fingerprint(model), float(norm)


@pytest.mark.parametrize("recipe", ["horovod", "plain"])
def test_clipping_between_synchronize_and_step(recipe: str) -> None:
    results = run(_clip, 2, recipe)
    assert results[0] == results[1]
    expected = torch.cat([g.flatten() for g in local_average(2, 0, mlp())]).norm()
    assert results[0][1] == pytest.approx(float(expected), rel=1e-4)


def _scaler(recipe: str, codec: str) -> tuple[list[str], list[float]]:
    model = mlp()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    optimizer = start(model, codec=codec, scaler=scaler)
    seen, scales = [], []
    for step in range(6):
        optimizer.zero_grad()
        value = loss(model, hp.rank(), step)
        if step == 3 and hp.rank() == 1:
            value = value * float("inf")  # the value overflows on one rank only
        scaler.scale(value).backward()
        if recipe == "horovod":
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
        seen.append(fingerprint(model))
        scales.append(scaler.get_scale())
    return seen, scales


@pytest.mark.parametrize("recipe", ["horovod", "plain"])
@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_grad_scaler_skips_the_same_step_on_every_rank(recipe: str, codec: str) -> None:
    results = run(_scaler, 2, recipe, codec)
    assert results[0] == results[1]
    seen, scales = results[0]
    assert seen[3] == seen[2]  # the overflowing step was skipped
    assert seen[4] != seen[3]
    assert scales[3] == scales[2] / 2


def _scheduler_and_closure() -> tuple[str, float]:
    hp.init()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)  # made for the unwrapped one
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters())
    assert isinstance(optimizer, torch.optim.SGD)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(model, hp.rank(), 0)
        value.backward()
        return value

    hp.allreduce(torch.zeros(1))
    before = hp.counters()["messages_sent"]
    assert optimizer.step(closure) is not None
    assert hp.counters()["messages_sent"] - before < 4 * len(list(model.parameters()))  # one synchronisation round
    scheduler.step()
    loss(model, hp.rank(), 1).backward()
    optimizer.step()
    return fingerprint(model), optimizer.param_groups[0]["lr"]


def test_schedulers_and_closures_work() -> None:
    results = run(_scheduler_and_closure, 2)
    assert results[0] == results[1]
    assert results[0][1] == 0.05


class Checkpointed(nn.Module):
    """A model that computes its middle again during backward, in a backward pass within the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.layers[:2](inputs)
        hidden = torch.utils.checkpoint.checkpoint(self.layers[2:4], hidden, use_reentrant=True)
        return self.layers[4](hidden)


def _checkpointing() -> tuple[str, bool]:
    hp.init()
    model = Checkpointed()
    optimizer = start(model)
    loss(model, hp.rank(), 0).backward()
    expected = local_average(hp.size(), 0, mlp())
    right = all(torch.allclose(g, e, atol=1e-6) for g, e in zip(gradients(model), expected, strict=True))
    optimizer.step()
    return fingerprint(model), right


def test_reentrant_checkpointing_gives_the_same_average() -> None:
    results = run(_checkpointing, 2)
    assert results[0] == results[1]
    assert results[0][1]


def _optimizer_state() -> tuple[Any, str]:
    hp.init()
    model = mlp(seed=hp.rank())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (hp.rank() + 1))
    if hp.rank() == 1:
        loss(model, 1, 0).backward()
        optimizer.step()
    hp.broadcast_parameters(model.state_dict(), root_rank=1)
    hp.broadcast_optimizer_state(optimizer, root_rank=1)
    state = optimizer.state_dict()
    return state["param_groups"][0]["lr"], str(state["state"][0]["exp_avg"].sum().item()) + fingerprint(model)


def test_ranks_start_from_one_ranks_state() -> None:
    results = run(_optimizer_state, 2)
    assert results[0] == results[1]
    assert results[0][0] == 0.02


def _two_optimizers() -> list[str]:
    hp.init()
    models = [mlp(seed=1), mlp(seed=2)]
    optimizers = [
        hp.DistributedOptimizer(torch.optim.SGD(m.parameters(), lr=0.1), m.named_parameters(), codec="onebit")
        for m in models
    ]
    for step in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            loss(model, hp.rank(), step).backward()
            optimizer.step()
    return [fingerprint(model) for model in models]


def test_two_optimizers_with_the_same_parameter_names() -> None:
    by_rank = run(_two_optimizers, 2)
    assert by_rank[0] == by_rank[1]


def _per_parameter_codecs() -> int:
    hp.init()
    model = nn.Linear(512, 512, bias=False)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), codec_for={"weight": "onebit"}
    )
    hp.allreduce(torch.zeros(1))
    before = hp.counters()["bytes_sent"]
    model(torch.ones(2, 512)).sum().backward()
    optimizer.step()
    return hp.counters()["bytes_sent"] - before


def test_codecs_of_single_parameters() -> None:
    assert all(sent < 512 * 512 * 4 / 30 for sent in run(_per_parameter_codecs, 2))


def _replicas(step_that_breaks: int) -> None:
    hp.init()
    model = mlp()
    optimizer = start(model)
    for step in range(4):
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        if step == step_that_breaks and hp.rank() == 1:
            with torch.no_grad():
                model[2].bias[5] += 1.0
        optimizer.step()


def test_diverging_replicas_are_found() -> None:
    run(_replicas, 2, -1, HIPRESS_CHECK_REPLICAS="2")
    for outcome in outcomes(_replicas, 2, 2, HIPRESS_CHECK_REPLICAS="2"):
        assert isinstance(outcome, hp.Mismatch)
        assert "2.bias" in str(outcome)
        assert "step 4" in str(outcome)
