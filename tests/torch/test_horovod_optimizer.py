# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer, sparse gradients and `.grad` behave as a script for Horovod expects."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import hipress.horovod.torch as hvd
import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _sparse_handles() -> None:
    hvd.init()
    rank = hvd.rank()
    entries = torch.sparse_coo_tensor(torch.tensor([[rank, 3]]), torch.full((2, 2), rank + 1.0), (5, 2))
    # Other operations, with names and without, start before and after the sparse ones.
    before = [hvd.allreduce_async(torch.ones(3)), hvd.allgather_async(torch.ones(rank + 1, 2), name="rows")]
    handle = hvd.sparse_allreduce_async(entries, "entries", hvd.Average)
    nothing = hvd.sparse_allreduce_async(torch.sparse_coo_tensor(size=(5, 2)), "nothing", hvd.Sum)
    after = [hvd.broadcast_async(torch.full((2,), rank * 1.0), 1), hvd.alltoall_async(torch.ones(2, 1))]
    assert callable(handle)
    assert hvd.synchronize(after[0]).tolist() == [1.0, 1.0]
    combined = handle().to_dense()
    expected = torch.zeros(5, 2)
    expected[0], expected[1], expected[3] = 0.5, 1.0, 1.5
    assert torch.equal(combined, expected)
    assert not nothing().to_dense().any()
    assert len(hvd.synchronize(before[1])) == 3
    hvd.synchronize(before[0])
    hvd.synchronize(after[1])
    # Horovod's own optimizer makes this call.
    again = hvd.sparse_allreduce_async(entries, "entries", hvd.Sum)
    result = hvd.synchronize(again) if not callable(again) else again()
    assert torch.equal(result.to_dense(), 2 * expected)


def test_a_sparse_allreduce_is_called_for_its_result() -> None:
    run(_sparse_handles, 2)


class Words(nn.Module):
    """A model with sparse rows between dense gradients; only rank 0 uses `extra`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before = nn.Linear(4, 6)
        self.words = nn.Embedding(20, 6, sparse=True)
        self.after = nn.Linear(6, 2)

    def forward(self, values: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(torch.tanh(self.before(values) + self.words(words)))
        return result


def _train_words(module: Any, as_dense: bool, kind: str) -> tuple[list[float], str]:
    hp.init()
    model = Words()
    dense = [*model.before.parameters(), *model.after.parameters()]
    kinds = {"SparseAdam": torch.optim.SparseAdam, "Adagrad": torch.optim.Adagrad, "SGD": torch.optim.SGD}
    sparse = kinds[kind](model.words.parameters(), lr=0.1)
    sparse = _module(module).DistributedOptimizer(sparse, model.words.named_parameters(), sparse_as_dense=as_dense)
    plain = _module(module).DistributedOptimizer(
        torch.optim.SGD(dense, lr=0.1), [(n, p) for n, p in model.named_parameters() if "words" not in n]
    )
    layout = ""
    for step in range(4):
        generator = torch.Generator().manual_seed(10 * step + hp.rank())
        values = torch.randn(8, 4, generator=generator)
        words = torch.randint(0, 20, (8,), generator=generator)
        sparse.zero_grad()
        plain.zero_grad()
        model(values, words).square().mean().backward()
        assert model.words.weight.grad is not None
        layout = str(model.words.weight.grad.layout)
        sparse.step()
        plain.step()
    return [float(value) for each in model.parameters() for value in each.detach().flatten()], layout


def _module(name: str) -> Any:
    return hvd if name == "horovod" else hp


def _alone(kind: str) -> list[float]:
    """The same training without HiPress, on both ranks' batches."""
    model = Words()
    kinds = {"SparseAdam": torch.optim.SparseAdam, "Adagrad": torch.optim.Adagrad, "SGD": torch.optim.SGD}
    sparse = kinds[kind](model.words.parameters(), lr=0.1)
    plain = torch.optim.SGD([*model.before.parameters(), *model.after.parameters()], lr=0.1)
    for step in range(4):
        sparse.zero_grad()
        plain.zero_grad()
        for rank in range(2):
            generator = torch.Generator().manual_seed(10 * step + rank)
            values = torch.randn(8, 4, generator=generator)
            words = torch.randint(0, 20, (8,), generator=generator)
            (model(values, words).square().mean() / 2).backward()
        sparse.step()
        plain.step()
    return [float(value) for each in model.parameters() for value in each.detach().flatten()]


@pytest.mark.parametrize("module", ["horovod", "hipress"])
@pytest.mark.parametrize("as_dense", [True, False])
@pytest.mark.parametrize("kind", ["SparseAdam", "Adagrad", "SGD"])
def test_sparse_gradients_train_as_on_one_process(module: str, as_dense: bool, kind: str) -> None:
    (first, layout), (second, _) = run(_train_words, 2, module, as_dense, kind)
    assert first == second
    assert torch.allclose(torch.tensor(first), torch.tensor(_alone(kind)), atol=1e-5)
    is_dense = as_dense and module == "hipress" and kind != "SparseAdam"
    assert layout == ("torch.strided" if is_dense else "torch.sparse_coo")


def _warnings(module: str) -> list[int]:
    hp.init()
    model = nn.Linear(3, 2)
    optimizer = _module(module).DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    counts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for way in ("step", "skip", "synchronize", "synchronize"):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            if way != "step":
                optimizer.synchronize()
            if way == "skip":
                with optimizer.skip_synchronize():
                    optimizer.step()
            else:
                optimizer.step()
            counts.append(len(caught))
    assert all(each.category is UserWarning for each in caught)
    # Scripts filter warnings by these words of Horovod's.
    assert "optimizer.step() called without optimizer.skip_synchronize()" in str(caught[0].message)
    assert caught[0].filename == __file__
    return counts


@pytest.mark.parametrize("module", ["horovod", "hipress"])
def test_step_after_synchronize_warns_once(module: str) -> None:
    assert run(_warnings, 2, module) == [[0, 0, 1, 1]] * 2


@pytest.mark.parametrize("module", ["horovod", "hipress"])
def test_names_are_checked_before_init(module: str) -> None:
    assert not hp.is_initialized()
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    distributed = _module(module).DistributedOptimizer
    with pytest.raises(hp.DuplicateName, match="'w'"):
        distributed(optimizer, [("w", parameter) for parameter in model.parameters()])
    with pytest.raises(ValueError, match="2 of the optimizer's parameters have no name"):
        distributed(optimizer, list(model.named_parameters())[:2])
    with pytest.raises(ValueError, match="pairs"):
        distributed(optimizer, model.parameters())
    with pytest.raises(hp.NotInitialized):
        distributed(optimizer, model.named_parameters())
    assert type(optimizer) is torch.optim.SGD


@pytest.mark.parametrize("groups", ["weight", {"weight": 1}, [["weight"]], "twice"])
def test_wrong_groups_are_refused_before_init(groups: Any) -> None:
    model = nn.Linear(3, 2)
    if groups == "twice":
        groups = [[model.weight], [model.bias, model.weight]]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(optimizer, model.named_parameters(), groups=groups)
    assert type(optimizer) is torch.optim.SGD


def _default_names() -> str:
    hp.init()
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    groups = [{"params": list(model[0].parameters())}, {"params": list(model[1].parameters()), "lr": 0.2}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    with pytest.raises(hp.InvalidArgument) as refusal:
        hp.DistributedOptimizer(optimizer, codec_for={"parameter.0": "fp16"})
    assert "4 tensors" in str(refusal.value)
    names = [f"allreduce.noname.{group}.{index}" for group in range(2) for index in range(2)]
    hp.DistributedOptimizer(optimizer, codec_for=dict.fromkeys(names, "fp16"))
    return "well"


def test_parameters_without_names_are_called_as_in_horovod() -> None:
    assert run(_default_names, 2) == ["well"] * 2


class _Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(3, 2)
        self.unused = nn.Linear(3, 2)
        self.frozen = nn.Linear(3, 2).requires_grad_(False)


def _unused(module: str) -> list[Any]:
    hp.init()
    model = _Parts()
    optimizer = _module(module).DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    assert all(parameter.grad is None for parameter in model.parameters())
    model.used(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return [None if each.grad is None else each.grad.abs().sum().item() for each in model.parameters()]


def test_a_step_leaves_zeros_where_no_rank_had_a_gradient() -> None:
    assert run(_unused, 2, "horovod") == [[6.0, 2.0, 0.0, 0.0, None, None]] * 2
    assert run(_unused, 2, "hipress") == [[6.0, 2.0, None, None, None, None]] * 2
    assert run(_unused, 1, "horovod") == [[6.0, 2.0, None, None, None, None]]  # with one rank Horovod changes nothing


def _state_and_gradients(trained_on_root: bool) -> list[str]:
    hp.init()
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    model[1].bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if trained_on_root and hp.rank() == 0:
        model(torch.tensor([1])).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, 0, model)
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))
    seen = []
    for parameter in model.parameters():
        gradient = parameter.grad
        assert gradient is None or not gradient.to_dense().any()
        seen.append("None" if gradient is None else str(gradient.layout))
    return seen


def test_broadcasting_a_fresh_optimizers_state_leaves_zeros() -> None:
    zeros = ["torch.sparse_coo", "torch.strided", "None"]
    assert run(_state_and_gradients, 2, False) == [zeros] * 2
    # The ranks had different gradients before, and have none afterwards.
    assert run(_state_and_gradients, 2, True) == [["None"] * 3] * 2


def _sparse_momentum() -> tuple[bool, list[list[float]]]:
    hp.init()
    torch.manual_seed(hp.rank())
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1, momentum=0.9)
    if hp.rank() == 0:
        table(torch.tensor([1, 3, 1])).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, 0)
    buffer = optimizer.state[table.weight]["momentum_buffer"]
    return buffer.is_sparse, buffer.to_dense().tolist()


def test_sparse_state_is_broadcast_as_it_is() -> None:
    zeros, ones = [0.0] * 3, [1.0] * 3
    assert run(_sparse_momentum, 2) == [(True, [zeros, [2.0] * 3, zeros, ones, zeros])] * 2


def _passes() -> list[float]:
    hp.init()
    model = nn.Linear(2, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.set_backward_passes_per_step(2)
    seen = []
    for _ in range(2):
        model(torch.full((1, 2), hp.rank() + 1.0)).sum().backward()
        assert model.weight.grad is not None
        seen.append(float(model.weight.grad[0, 0]))
    with pytest.raises(hp.InvalidArgument, match="at least 1"):
        optimizer.set_backward_passes_per_step(0)
    return seen


def test_the_number_of_backward_passes_can_be_changed() -> None:
    assert run(_passes, 2) == [[1.0, 3.0], [2.0, 3.0]]


class Shorter:
    """A compressor that sends the first half of the elements; the others become zero. It is no codec, because it
    changes shapes."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Size]:
        flat = tensor.flatten()
        return flat[: len(flat) // 2].clone(), tensor.shape

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.Size) -> torch.Tensor:
        whole = torch.zeros(ctx.numel())
        whole[: len(tensor)] = tensor
        return whole.view(ctx)


def _shorter() -> tuple[list[float], int]:
    hp.init()
    model = nn.Linear(1000, 4, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), compression=Shorter
    )
    hp.allreduce(torch.zeros(1))
    before = hp.counters()["bytes_sent"]
    model(torch.full((1, 1000), hp.rank() + 1.0)).sum().backward()
    sent = hp.counters()["bytes_sent"] - before
    assert model.weight.grad is not None
    for change in (lambda: optimizer.set_codec("fp16"), lambda: optimizer.set_plan(None)):
        with pytest.raises(hp.InvalidArgument, match="compression"):
            change()
    optimizer.step()
    # A rank without a gradient takes part with zeros.
    optimizer.zero_grad()
    if hp.rank() == 0:
        model(torch.full((1, 1000), 2.0)).sum().backward()
    optimizer.step()
    return [float(row) for row in model.weight.grad.sum(1)], sent


def test_a_compressor_may_send_another_shape() -> None:
    results = run(_shorter, 2)
    assert results[0][0] == results[1][0] == [1000.0, 1000.0, 0.0, 0.0]
    assert sum(sent for _, sent in results) < 1.2 * 2 * 2000 * 4
