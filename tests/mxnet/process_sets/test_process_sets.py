# SPDX-License-Identifier: Apache-2.0
"""Process sets of a trainer and an optimizer."""

from __future__ import annotations

import mxnet as mx
import numpy as np
import pytest

import hipress.mxnet as hvd
from tests.mxnet.ranks import run

pytestmark = pytest.mark.slow

MEMBERS = [0, 2]


def _trained(stale: bool) -> list[float]:
    hvd.init(check_replicas=1)
    process_set = hvd.add_process_set(MEMBERS)
    layer, unused = mx.gluon.nn.Dense(2, in_units=3), mx.gluon.nn.Dense(2, in_units=3)
    for each in (layer, unused):
        each.initialize(mx.init.One())
    params = {**layer.collect_params(), **unused.collect_params()}
    trainer = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 0.5}, process_set=process_set)
    for _ in range(2):
        with mx.autograd.record():
            loss = layer(mx.nd.full((1, 3), 10.0 ** hvd.rank())).sum()
            if not stale:
                loss = loss + unused(mx.nd.ones((1, 3))).sum()
        loss.backward()
        trainer.step(1, ignore_stale_grad=stale)
    weights: list[float] = layer.weight.data().asnumpy()[0].tolist()
    return weights


@pytest.mark.parametrize("stale", [False, True])
def test_a_trainer_combines_gradients_among_the_ranks_of_its_set(stale: bool) -> None:
    together, alone = [1.0 - (1.0 + 100.0) / 2] * 3, [1.0 - 10.0] * 3
    assert run(_trained, 3, stale) == [together, alone, together]


def _optimized() -> list[float]:
    hvd.init(check_replicas=1)
    process_set = hvd.add_process_set(MEMBERS)
    optimizer = hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=1.0), process_set=process_set)
    weight = mx.nd.zeros((4,))
    optimizer.update(0, weight, mx.nd.full((4,), 10.0 ** hvd.rank()), None)
    result: list[float] = weight.asnumpy().tolist()
    return result


def test_an_optimizer_combines_gradients_among_the_ranks_of_its_set() -> None:
    assert run(_optimized, 3) == [[-50.5] * 4, [-10.0] * 4, [-50.5] * 4]


def _dtypes() -> None:
    hvd.init()
    process_set = hvd.add_process_set(MEMBERS)
    if not process_set.included():
        return
    for dtype in ("float16", "float64", "int32"):
        values = mx.nd.full((5,), hvd.rank() + 1, dtype=dtype)
        total = hvd.allreduce(values, op=hvd.Sum, name=dtype, process_set=process_set)
        np.testing.assert_array_equal(total.asnumpy(), np.full(5, 4, dtype))


def test_arrays_of_each_type_are_combined_in_the_set() -> None:
    run(_dtypes, 3)
