# SPDX-License-Identifier: Apache-2.0
"""Models with SyncBatchNorm: they are converted, copied, trained, evaluated and differentiated in any order."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hipress.torch as hp
from hipress.errors import NotInitialized
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _model() -> nn.Sequential:
    torch.manual_seed(7)
    block = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, eps=1e-3, momentum=None), nn.ReLU())
    return nn.Sequential(block, nn.Flatten(), nn.Linear(6 * 16, 5), nn.BatchNorm1d(5, affine=False), nn.Linear(5, 2))


def _trained(model: nn.Module, optimizer: torch.optim.Optimizer, parts: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    for inputs, targets in parts:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return model.state_dict()


def _equals_one_process() -> dict[str, float]:
    """The largest difference of each value of a model after three steps from those of one process."""
    hp.init()
    random = torch.Generator().manual_seed(3)
    data = [
        (torch.randn(4 * hp.size(), 3, 6, 6, generator=random), torch.randn(4 * hp.size(), 2, generator=random))
    ] * 3
    alone = _model()
    expected = _trained(alone, torch.optim.SGD(alone.parameters(), 0.1), data)
    model = hp.SyncBatchNorm.convert_sync_batchnorm(_model())
    assert [type(each).__name__ for each in model.modules() if "Norm" in type(each).__name__] == ["SyncBatchNorm"] * 2
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
    own = slice(4 * hp.rank(), 4 * hp.rank() + 4)
    found = _trained(model, optimizer, [(inputs[own], targets[own]) for inputs, targets in data])
    assert found.keys() == expected.keys()
    # A rank evaluates alone, also where the other ranks do not.
    if hp.rank() == 0:
        torch.testing.assert_close(model.eval()(data[0][0]), alone.eval()(data[0][0]), rtol=1e-4, atol=1e-5)
    return {name: float((found[name].float() - value.float()).abs().max()) for name, value in expected.items()}


def test_a_training_equals_the_training_of_one_process() -> None:
    for found in run(_equals_one_process, 3):
        assert {name: error for name, error in found.items() if error > 1e-5} == {}


def test_a_converted_layer_has_what_the_layer_had() -> None:
    layer = nn.BatchNorm2d(3, eps=0.5, momentum=None, dtype=torch.float64).eval()
    layer.requires_grad_(False)
    layer.bias = None
    converted = hp.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert isinstance(converted, hp.SyncBatchNorm)
    assert (converted.eps, converted.momentum, converted.training) == (0.5, None, False)
    assert converted.weight is layer.weight
    assert converted.bias is None
    assert all(converted.get_buffer(name) is value for name, value in layer.named_buffers())
    again = hp.SyncBatchNorm.convert_sync_batchnorm(converted)
    assert list(again.state_dict()) == list(layer.state_dict())
    assert isinstance(hp.SyncBatchNorm.convert_sync_batchnorm(nn.LayerNorm(3)), nn.LayerNorm)


def test_evaluation_needs_no_other_rank_and_training_needs_init() -> None:
    layer = hp.SyncBatchNorm(3)
    values = torch.randn(5, 3)
    expected = nn.BatchNorm1d(3).eval()(values)
    for each in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(each.eval()(values), expected)
        assert each.process_set is hp.global_process_set
        with pytest.raises(NotInitialized):
            each.train()(values)


def _one_rank() -> None:
    hp.init()
    layer, plain = hp.SyncBatchNorm(3, momentum=None), nn.BatchNorm1d(3, momentum=None)
    for _ in range(2):
        values = torch.randn(5, 3)
        assert torch.equal(layer(values), plain(values))
    assert all(torch.equal(layer.get_buffer(name), value) for name, value in plain.named_buffers())


def test_one_rank_has_the_layer_of_torch() -> None:
    run(_one_rank, 1)


def _in_threads() -> list[float]:
    """The largest errors of two calls' gradients, whose backward passes the ranks start in different orders."""
    hp.init()
    # Each rank has one half of the batch.
    batch = torch.arange(8.0, dtype=torch.float64).reshape(4, 2) ** 2
    wanted = batch.clone().requires_grad_()
    (nn.BatchNorm1d(2, dtype=torch.float64)(wanted) ** 3).sum().backward()
    inputs = [batch[hp.rank() :: 2].clone().requires_grad_() for _ in range(2)]
    layer = hp.SyncBatchNorm(2, dtype=torch.float64)
    results = [(layer(each) ** 3).sum() * factor for each, factor in zip(inputs, (1, 10), strict=True)]
    threads = [threading.Thread(target=result.backward) for result in results]
    for thread in threads if hp.rank() == 0 else reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    found = [each.grad for each in inputs if each.grad is not None]
    assert wanted.grad is not None
    expected = wanted.grad[hp.rank() :: 2]
    return [float((each / factor - expected).abs().max()) for each, factor in zip(found, (1, 10), strict=True)]


def test_backward_passes_run_in_any_order() -> None:
    for _ in range(5):
        for errors in run(_in_threads, 2):
            assert len(errors) == 2
            assert max(errors) < 1e-12


def _another_way(compiled: bool) -> float:
    """The largest difference that another way through the layer makes to a gradient."""
    hp.init()
    torch.manual_seed(hp.rank())
    values = torch.randn(6, 3)
    layer = hp.SyncBatchNorm(3)

    def recomputed(given: torch.Tensor) -> Any:
        return checkpoint(layer, given, use_reentrant=False)

    other: Any = torch.compile(layer, backend="eager") if compiled else recomputed
    gradients = []
    for way in (layer, other):
        given = values.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            result = way(given)
        assert result.dtype == torch.float32
        (result**3).sum().backward()
        assert given.grad is not None
        gradients.append(given.grad)
    return float((gradients[0] - gradients[1]).abs().max())


@pytest.mark.parametrize("compiled", [False, True], ids=["recomputed", "compiled"])
def test_another_way_through_the_layer_changes_nothing(compiled: bool) -> None:
    assert run(_another_way, 2, compiled) == [0.0] * 2
