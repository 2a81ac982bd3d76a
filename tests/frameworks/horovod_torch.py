# SPDX-License-Identifier: Apache-2.0
"""Checks of the names that only horovod.torch has; see horovod_calls.py."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

from hipress.errors import InvalidArgument
from tests.frameworks.horovod_calls import Call, Check


def barrier(call: Call) -> None:
    for _ in range(3):
        assert call.hvd.barrier() is None


def elastic(call: Call) -> None:
    model = nn.Linear(2, 1)
    state = call.hvd.elastic.TorchState(model, torch.optim.SGD(model.parameters(), lr=0.1), batch=call.rank)

    @call.hvd.elastic.run
    def train(state: Any, *, until: int) -> list[int]:
        seen = []
        while state.batch < until:
            seen.append(state.batch)
            state.batch += 1
            state.commit()
        return seen

    assert train(state, until=3) == [0, 1, 2]


def join(call: Call) -> None:
    if call.rank == 0:
        assert call.hvd.allreduce(torch.tensor([4.0]), name="without rank 1").tolist() == [2.0]
    assert call.hvd.join() == 0
    assert call.hvd.allreduce(torch.tensor([4.0])).tolist() == [4.0]


def sparse_allreduce_async(call: Call) -> None:
    entries = torch.sparse_coo_tensor(torch.tensor([[call.rank]]), torch.ones(1, 2), (3, 2))
    handle = call.hvd.sparse_allreduce_async(entries, "s", call.hvd.Average)
    assert callable(handle)
    assert handle().to_dense().tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]]


def broadcast_parameters(call: Call) -> None:
    model = nn.Linear(2, 1)
    for parameters in (model.state_dict(), model.named_parameters(), list(model.parameters())):
        with torch.no_grad():
            model.weight.fill_(call.rank)
        call.hvd.broadcast_parameters(parameters, root_rank=1)
        assert model.weight.tolist() == [[1.0, 1.0]]
    with pytest.raises(ValueError, match="named_parameters"):
        call.hvd.broadcast_parameters(["weight"], root_rank=1)


def poll(call: Call) -> None:
    handle = call.hvd.allreduce_async(call.tensor(1.0))
    assert not isinstance(handle, int)
    while not call.hvd.poll(handle):
        pass
    call.hvd.synchronize(handle)
    with pytest.raises(InvalidArgument, match="handle"):
        call.hvd.poll(1)


def synchronize(call: Call) -> None:
    handle = call.hvd.allreduce_async(call.tensor(2.0))
    assert call.hvd.synchronize(handle).tolist() == [2.0]
    with pytest.raises(InvalidArgument, match="already"):
        call.hvd.synchronize(handle)


def broadcast_optimizer_state(call: Call) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if call.rank == 0 else 0.25, weight_decay=0.1)
    before = model.weight.detach().clone()
    call.hvd.broadcast_optimizer_state(optimizer, 1, model=model)
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert torch.equal(model.weight, before)
    assert not optimizer.state
    assert model.weight.grad is not None
    assert not model.weight.grad.any()
    call.hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0)


def distributed_optimizer(call: Call) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = call.hvd.DistributedOptimizer(
        plain, model.named_parameters(), call.hvd.Compression.none, 1, call.hvd.Average, 1.0, 2, [[model.weight]]
    )
    assert optimizer is plain
    assert isinstance(optimizer, torch.optim.SGD)
    for _ in range(2):  # Horovod refuses the second backward pass
        model(torch.full((1, 2), call.rank + 1.0)).sum().backward()
        assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[3.0, 3.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
    optimizer.set_backward_passes_per_step(2)
    optimizer.zero_grad()


def sync_batch_norm(call: Call) -> None:
    """Each rank has one row of a batch. Horovod's own test does the same, on GPUs."""
    batch = torch.tensor([[1.0, 2.0, -4.0], [3.0, 7.0, 0.5]])
    layer, plain = call.hvd.SyncBatchNorm(3, 1e-5, 0.1, True, True), nn.BatchNorm1d(3)
    own, whole = batch[call.rank : call.rank + 1].clone().requires_grad_(), batch.clone().requires_grad_()
    output, expected = layer(own), plain(whole)
    torch.testing.assert_close(output, expected[call.rank : call.rank + 1])
    (output**3).sum().backward()
    (expected**3).sum().backward()
    torch.testing.assert_close(own.grad, whole.grad[call.rank : call.rank + 1], atol=1e-4, rtol=1e-4)
    for name, parameter in plain.named_parameters():
        average = call.hvd.allreduce(layer.get_parameter(name).grad, name=name)
        torch.testing.assert_close(average, parameter.grad / 2)
    for name, value in plain.named_buffers():
        torch.testing.assert_close(layer.get_buffer(name), value)


SAME: dict[str, Check] = {
    "elastic": elastic,
    "join": join,
    "SyncBatchNorm": sync_batch_norm,
    "barrier": barrier,
    "sparse_allreduce_async": sparse_allreduce_async,
    "broadcast_parameters": broadcast_parameters,
}
DIFFERS: dict[str, Check] = {
    "poll": poll,
    "synchronize": synchronize,
    "broadcast_optimizer_state": broadcast_optimizer_state,
    "DistributedOptimizer": distributed_optimizer,
}
