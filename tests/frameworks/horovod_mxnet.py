# SPDX-License-Identifier: Apache-2.0
"""Checks of the names that only horovod.mxnet has; see horovod_calls.py."""

from __future__ import annotations

import mxnet as mx
import pytest

from hipress.errors import InvalidArgument
from tests.frameworks.horovod_calls import Call, Check


def broadcast_parameters(call: Call) -> None:
    array = mx.nd.full((2,), call.rank)
    call.hvd.broadcast_parameters({"w": array}, root_rank=1, prefix="p.")
    assert array.asnumpy().tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="dict"):
        call.hvd.broadcast_parameters([array])


def _parameter(call: Call) -> mx.gluon.Parameter:
    parameter = mx.gluon.Parameter("w", shape=(2,))
    parameter.initialize(mx.init.One())
    with mx.autograd.record():
        loss = (parameter.data() * (call.rank + 1)).sum()
    loss.backward()
    return parameter


def distributed_trainer(call: Call) -> None:
    parameter = _parameter(call)
    trainer = call.hvd.DistributedTrainer([parameter], "sgd", {"learning_rate": 1.0}, prefix="t.", num_groups=1)
    trainer.step(1)
    assert parameter.data().asnumpy().tolist() == [-0.5, -0.5]
    with pytest.raises(InvalidArgument, match="plain optimizer"):
        call.hvd.DistributedTrainer([parameter], call.hvd.DistributedOptimizer(mx.optimizer.SGD()))


def distributed_optimizer(call: Call) -> None:
    parameter = _parameter(call)
    plain = mx.optimizer.SGD(learning_rate=1.0)
    optimizer = call.hvd.DistributedOptimizer(plain, 1.0, 0)
    assert optimizer is plain
    assert isinstance(optimizer, mx.optimizer.SGD)
    optimizer.update(0, parameter.data(), parameter.grad(), None)
    assert parameter.data().asnumpy().tolist() == [-0.5, -0.5]


SAME: dict[str, Check] = {"broadcast_parameters": broadcast_parameters}
DIFFERS: dict[str, Check] = {
    "DistributedTrainer": distributed_trainer,
    "DistributedOptimizer": distributed_optimizer,
}
