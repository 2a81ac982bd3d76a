# SPDX-License-Identifier: Apache-2.0
"""HIPRESS_CHECK_REPLICAS finds a replica that differs, in every way in, on all ranks, with the parameter's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from hipress.mxnet.optim import DGCSGD, OneBitAdam  # noqa: E402
from tests.mxnet.models import backward, batch, mlp  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402

pytestmark = pytest.mark.slow

BATCH = 8

#: Takes a step with a number, and returns the parameter to spoil.
Step = Callable[[int], Any]


def _gluon(made: Callable[[Any], Any]) -> Step:
    net = mlp()
    trainer = made(net.collect_params())

    def step(number: int) -> Any:
        backward(net, hp.rank(), number)
        trainer.step(BATCH)
        return net[1].bias.data()

    return step


def _combining() -> Any:
    return hp.DistributedOptimizer(mx.optimizer.SGD())


def _module(kvstore: str | None) -> Step:
    hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="net_dense1")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(hidden, name="softmax"))
    inputs, labels = batch(hp.rank(), 0)
    batches = mx.io.NDArrayIter(inputs, labels, BATCH)
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    module.init_optimizer(kvstore, mx.optimizer.SGD() if kvstore else _combining())

    def step(number: int) -> Any:
        module.forward_backward(next(iter(batches)))
        batches.reset()
        module.update()
        return module._exec_group.param_arrays[module._param_names.index("net_dense1_bias")][0]

    return step


def _loop() -> Step:
    optimizer = hp.DistributedOptimizer(mx.optimizer.SGD(param_idx2name={0: "net_dense0_bias", 1: "net_dense1_bias"}))
    weights = [mx.nd.zeros(40), mx.nd.zeros(40)]
    gradients = [mx.nd.ones(40), mx.nd.ones(40)]

    def step(number: int) -> Any:
        for index, weight in enumerate(weights):
            optimizer.update(index, weight, gradients[index], None)
        return weights[1]

    return step


_WAYS: dict[str, Callable[[], Step]] = {
    "DistributedTrainer": lambda: _gluon(lambda params: hp.DistributedTrainer(params, "sgd")),
    "Trainer with the kvstore": lambda: _gluon(lambda params: mx.gluon.Trainer(params, "sgd", kvstore="hipress")),
    "Trainer with DistributedOptimizer": lambda: _gluon(
        lambda params: mx.gluon.Trainer(params, _combining(), kvstore=None)
    ),
    "Module with the kvstore": lambda: _module("hipress"),
    "Module with DistributedOptimizer": lambda: _module(None),
    "DistributedOptimizer in a loop": _loop,
    "OneBitAdam": lambda: _gluon(lambda params: OneBitAdam(params, freeze_step=2)),
    "DGCSGD": lambda: _gluon(lambda params: DGCSGD(params, 0.1)),
}


def _spoiled() -> dict[str, str]:
    """By way in, the text of the error. Both ranks get an error in the same step, so the next way in may go on."""
    hp.init(check_replicas=2)
    texts = {}
    for way, made in _WAYS.items():
        step = made()
        for number in range(3):
            found = step(number)
        found[3] += hp.rank()
        with pytest.raises(hp.Mismatch) as caught:
            step(3)
        texts[way] = str(caught.value)
    return texts


def test_a_replica_that_differs_is_found_on_all_ranks() -> None:
    for texts in run(_spoiled, 2):
        assert set(texts) == set(_WAYS)
        for way, text in texts.items():
            assert "after step 4 parameter 'net_dense1_bias'" in text, (way, text)


def _with_batch_norm(kvstore: bool) -> None:
    hp.init(check_replicas=1)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.BatchNorm(in_channels=16), mx.gluon.nn.Dense(4, in_units=16))
    net.initialize()
    hp.broadcast_parameters(net.collect_params())
    if kvstore:
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore="hipress")
    else:
        trainer = hp.DistributedTrainer(net.collect_params(), "sgd")
    for number in range(2):
        backward(net, hp.rank(), number)
        trainer.allreduce_grads()
        trainer.update(BATCH)
    (running_mean,) = (each for name, each in net.collect_params().items() if name.endswith("running_mean"))
    assert np.abs(running_mean.data().asnumpy()).max() > 0


@pytest.mark.parametrize("kvstore", [True, False])
def test_a_ranks_own_running_means_are_not_compared(kvstore: bool) -> None:
    assert outcomes(_with_batch_norm, 2, kvstore) == [None, None]
