# SPDX-License-Identifier: Apache-2.0
"""Collectives of single arrays: MXNet's engine orders the operations and the other uses of the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from hipress.mxnet.operators import order_values  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402


def _computed_before_and_after() -> np.ndarray:
    hp.init()
    value = mx.nd.ones((50, 50))
    for _ in range(10):
        value = mx.nd.dot(value, value) / 50
    result = hp.allreduce(value + hp.rank(), average=False, name="value")
    hp.allreduce_(result, name="again")
    return (result * 2).asnumpy()


def test_operations_wait_for_their_values_and_are_waited_for() -> None:
    for result in run(_computed_before_and_after, 2):
        np.testing.assert_allclose(result, np.full((50, 50), 6.0), rtol=1e-6)


def _broadcast_after_inference() -> np.ndarray:
    hp.init()
    mx.random.seed(hp.rank())
    layer = mx.gluon.nn.Conv2D(64, 3, in_channels=16)
    layer.initialize(mx.init.Uniform(1.0))
    layer(mx.nd.ones((8, 16, 14, 14)))  # the first forward pass leaves the weights in oneDNN's own memory order
    hp.broadcast_parameters(layer.collect_params(), root_rank=1)
    return layer.weight.data().asnumpy()


def test_weights_that_inference_has_reordered_are_broadcast() -> None:
    first, second = run(_broadcast_after_inference, 2)
    np.testing.assert_array_equal(first, second)


def _order_while_inference_is_under_way() -> np.ndarray:
    hp.init()
    layer = mx.gluon.nn.Conv2D(64, 3, in_channels=16)
    layer.initialize(mx.init.Uniform(1.0))
    weight = layer.weight.data()
    weight.wait_to_read()
    busy = mx.nd.ones((1000, 1000))
    for _ in range(4):
        busy = mx.nd.dot(busy, busy) / 1000
    layer(mx.nd.ones((8, 16, 14, 14)) * busy[0, 0])  # reorders the weights once `busy` is computed
    order_values(weight)
    mx.nd.waitall()
    return mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(weight)).asnumpy()


def test_inference_that_is_under_way_reorders_no_weights_later() -> None:
    (weights,) = run(_order_while_inference_is_under_way, 1)
    assert weights.shape == (64, 16, 3, 3)


def _average_after_inference() -> np.ndarray:
    hp.init()
    layer = mx.gluon.nn.Conv2D(64, 3, in_channels=16)
    layer.initialize(mx.init.One())
    layer(mx.nd.ones((8, 16, 14, 14)))
    mx.nd.waitall()
    weight = layer.weight.data()
    with pytest.raises(hp.Unsupported, match=r"'allreduce.weight': an inference .* oneDNN.* array.copy\(\)"):
        hp.allreduce(weight, name="weight").wait_to_read()
    return hp.allreduce(weight.copy(), name="copy").asnumpy()


def test_weights_that_inference_has_reordered_are_averaged_as_copies() -> None:
    for average in run(_average_after_inference, 2):
        np.testing.assert_array_equal(average, np.ones((64, 16, 3, 3)))


def _objects() -> Any:
    hp.init()
    return hp.broadcast_object({"epoch": hp.rank(), "name": "x" * 1000}, root_rank=1)


def test_objects_are_broadcast() -> None:
    assert run(_objects, 3) == [{"epoch": 1, "name": "x" * 1000}] * 3


def _different_shapes() -> None:
    hp.init()
    hp.allreduce(mx.nd.ones(3 + hp.rank()), name="a").wait_to_read()


def test_different_shapes_are_an_error_on_every_rank() -> None:
    for error in outcomes(_different_shapes, 2):
        assert isinstance(error, hp.Mismatch)
        assert "'allreduce.a'" in str(error)


def _naive_engine() -> None:
    hp.init()


def test_mxnets_naive_engine_is_refused() -> None:
    (error,) = outcomes(_naive_engine, 1, MXNET_ENGINE_TYPE="NaiveEngine")
    assert isinstance(error, hp.Unsupported)


def _gather_and_exchange() -> list[Any]:
    hp.init()
    rank = hp.rank()
    own = mx.nd.full((rank + 1, 2), rank, dtype="int32")
    moved, received = hp.alltoall(mx.nd.arange(6).reshape((6, 1)), splits=[1, 2, 3])
    rows = mx.nd.array(np.arange(8, dtype=np.float32).reshape(4, 2))
    results = [
        hp.allgather(own, name="rows"),
        moved,
        received,
        hp.alltoall(mx.nd.full((3,), rank)),
        hp.reducescatter(rows, op=hp.Sum),
        *hp.grouped_allgather([own, own + 1], name="two"),
        *hp.grouped_reducescatter([rows, rows * 2], op=hp.Max),
        *hp.grouped_allreduce([rows, rows * rank], average=False, name="sums"),
        hp.allreduce(rows + rank, op=hp.Min),
        hp.synchronize(hp.allreduce(mx.nd.full((2,), rank + 1), op=hp.Product)),
    ]
    hp.barrier()
    return [array.asnumpy().tolist() for array in results] + [hp.allgather_object({"rank": rank})]


def test_what_changes_shape_arrives_in_the_order_of_the_ranks() -> None:
    for rank, results in enumerate(run(_gather_and_exchange, 3)):
        rows = np.arange(8).reshape(4, 2)
        own_rows = {0: slice(0, 2), 1: slice(2, 3), 2: slice(3, 4)}[rank]
        gathered = [[0, 0], [1, 1], [1, 1], [2, 2], [2, 2], [2, 2]]
        moved = {0: [[0]] * 3, 1: [[1], [2]] * 3, 2: [[3], [4], [5]] * 3}[rank]
        assert results[:5] == [gathered, moved, [rank + 1] * 3, [0, 1, 2], (3 * rows[own_rows]).tolist()]
        assert results[5:7] == [gathered, (np.array(gathered) + 1).tolist()]
        assert results[7:9] == [rows[own_rows].tolist(), (2 * rows[own_rows]).tolist()]
        assert results[9:11] == [(3 * rows).tolist(), (3 * rows).tolist()]
        assert results[11:13] == [rows.tolist(), [6, 6]]
        assert results[13] == [{"rank": 0}, {"rank": 1}, {"rank": 2}]


def _of_numpys_kind() -> list[str]:
    hp.init()
    mx.npx.set_np()
    try:
        x = mx.np.ones((4, 3)) * (1 + hp.rank())
        found = [
            hp.allreduce(x, name="a"),
            hp.allreduce(x, name="b", compression=hp.Compression.fp16),
            *hp.grouped_allreduce([x, x], name="c"),
            hp.allgather(x, name="d"),
            *hp.grouped_allgather([x], name="e"),
            hp.reducescatter(x, name="f"),
            *hp.grouped_reducescatter([x], name="g"),
            hp.alltoall(x, name="h"),
            *hp.alltoall(x, splits=mx.np.array([1, 3], dtype="int32"), name="i"),
            hp.broadcast(x, 1, name="j"),
            hp.allreduce_(x.copy(), name="k"),
            *hp.grouped_allreduce_([x.copy()], name="l"),
            hp.broadcast_(x.copy(), 1, name="m"),
            hp.allreduce(mx.np.array(2.0), name="n"),
        ]
        (found[0] + mx.np.ones((4, 3))).asnumpy()
        return [type(each).__module__ for each in found]
    finally:
        mx.npx.reset_np()


def test_arrays_of_mx_np_give_arrays_of_mx_np() -> None:
    for kinds in run(_of_numpys_kind, 2):
        assert set(kinds) == {"mxnet.numpy"}


def _broadcast_state() -> tuple[float, float]:
    hp.init()
    net = mx.gluon.nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5 / (1 + hp.rank()), "momentum": 0.9})
    if hp.rank() == 1:
        with mx.autograd.record():
            loss = net(mx.nd.ones((1, 2))).sum()
        loss.backward()
        trainer.step(1)
    hp.broadcast_optimizer_state(trainer, root_rank=1)
    return trainer.learning_rate, float(trainer._updaters[0].states[0].sum().asscalar())


def test_an_optimizers_state_is_broadcast() -> None:
    first, second = run(_broadcast_state, 2)
    assert first == second
    assert first[0] == 0.25
    assert first[1] != 0
