# SPDX-License-Identifier: Apache-2.0
"""Batch sizes that differ between ranks are an error on all ranks, and their mean (or sum) gives one process's step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from hipress.mxnet.optim import OneBitAdam  # noqa: E402
from tests.mxnet.models import batch, fingerprint, mlp, values  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402

#: Each rank's rows in the last of three steps; it has 8 in the others.
_ROWS = (8, 5)
_RATE = {"learning_rate": 0.1, "momentum": 0.9}


def _trainer(way: str, net: Any) -> Any:
    parameters = net.collect_params()
    if way == "kvstore":
        return mx.gluon.Trainer(parameters, "sgd", _RATE, kvstore="hipress")
    if way == "optimizer":
        return mx.gluon.Trainer(parameters, hp.DistributedOptimizer(mx.optimizer.SGD(**_RATE)), kvstore=None)
    if way == "OneBitAdam":
        return OneBitAdam(parameters, 0.01, freeze_step=2)
    return hp.DistributedTrainer(parameters, "sgd", _RATE)


def _backward(net: Any, rank: int, step: int) -> int:
    """Returns the number of rows."""
    rows = _ROWS[rank] if step == 2 else 8
    inputs, labels = batch(rank, step, rows)
    with mx.autograd.record():
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(inputs), labels)
    loss.backward()
    return rows


def _train(way: str, same: bool) -> tuple[str, dict[str, np.ndarray]]:
    hp.init()
    net = mlp()
    trainer = _trainer(way, net)
    for step in range(4):
        rows = _backward(net, hp.rank(), step)
        if same:
            rows = hp.allreduce(mx.nd.array([rows]), op=hp.Sum if way == "kvstore" else hp.Average).asscalar()
        if way == "parts":
            trainer.allreduce_grads()
            trainer.update(rows)
        else:
            trainer.step(rows)
    mx.nd.waitall()
    return fingerprint(net), values(net)


@pytest.mark.parametrize("way", ["trainer", "parts", "kvstore", "optimizer", "OneBitAdam"])
def test_different_batch_sizes_are_an_error_on_all_ranks(way: str) -> None:
    for error in outcomes(_train, 2, way, False):
        assert isinstance(error, hp.Mismatch)
        assert "batch size" in str(error)


@pytest.mark.parametrize("way", ["trainer", "kvstore", "optimizer"])
def test_the_mean_of_the_batch_sizes_gives_the_step_of_one_process_with_the_joined_batch(way: str) -> None:
    net = mlp()
    parameters = net.collect_params()
    alone = mx.gluon.Trainer(parameters, "sgd", _RATE, kvstore=None)
    for step in range(4):
        gradients, rows = [], 0
        for rank in range(2):
            rows += _backward(net, rank, step)
            gradients.append([each.grad().copy() for each in parameters.values()])
        for parameter, *parts in zip(parameters.values(), *gradients, strict=True):
            parameter.grad()[:] = parts[0] + parts[1]
        alone.step(rows)
    first, second = run(_train, 2, way, True)
    assert first[0] == second[0]
    for name, expected in values(net).items():
        np.testing.assert_allclose(first[1][name], expected, rtol=1e-4, atol=1e-6, err_msg=name)
