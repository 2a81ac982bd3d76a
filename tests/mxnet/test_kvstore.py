# SPDX-License-Identifier: Apache-2.0
"""mx.kv.create("hipress") and DistributedOptimizer also work in MXNet's training loops."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.models import backward, fingerprint, mlp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

BATCH = 8


def _exchange() -> list[Any]:
    hp.init()
    store = mx.kv.create("hipress")
    value, copy = mx.nd.full((2, 3), 1.0 + store.rank), mx.nd.zeros((2, 3))
    store.broadcast("a", value, out=[copy])
    store.pushpull("a", value)
    sums = mx.nd.zeros((2, 3))
    store.pushpull("b", [mx.nd.ones((2, 3)), mx.nd.ones((2, 3))], out=[sums])
    return [array.asnumpy() for array in (copy, value, sums)] + [store.rank, store.num_workers, store.type]


def test_values_are_broadcast_from_rank_0_and_added_up() -> None:
    for rank, (copy, value, sums, own_rank, workers, kind) in enumerate(run(_exchange, 3)):
        np.testing.assert_array_equal(copy, np.ones((2, 3)))
        np.testing.assert_array_equal(value, np.full((2, 3), 6.0))
        np.testing.assert_array_equal(sums, np.full((2, 3), 6.0))
        assert (own_rank, workers, kind) == (rank, 3, "dist_sync_hipress")


def _train(by: str, **params: Any) -> tuple[str, int]:
    hp.init()
    net = mlp()  # a Trainer asks its kvstore for rank 0's values only after the first backward
    parameters = net.collect_params()
    if by == "name":  # MXNet itself would ignore a store whose name lacks "dist"
        trainer = mx.gluon.Trainer(parameters, "sgd", {"momentum": 0.9}, kvstore="hipress", compression_params=params)
    elif by == "optimizer":
        hp.broadcast_parameters(parameters)
        own = hp.DistributedOptimizer(mx.optimizer.SGD(momentum=0.9), op=hp.Sum, **params)
        trainer = mx.gluon.Trainer(parameters, own, kvstore=None)
    else:
        hp.broadcast_parameters(parameters)
        trainer = hp.DistributedTrainer(parameters, "sgd", {"momentum": 0.9}, op=hp.Sum, **params)
    for step in range(3):
        backward(net, hp.rank(), step)
        trainer.step(BATCH * hp.size())
    digest = fingerprint(net)
    return digest, hp.counters()["bytes_sent"]


@pytest.mark.parametrize("params", [{}, {"codec": "onebit", "topology": "allgather"}], ids=["none", "onebit"])
def test_the_three_ways_train_alike(params: dict[str, Any]) -> None:
    expected = _only(run(_train_as, 2, "trainer", params))
    assert _only(run(_train_as, 2, "name", params)) == expected
    assert _only(run(_train_as, 2, "optimizer", params)) == expected


def _train_as(by: str, params: dict[str, Any]) -> str:
    return _train(by, **params)[0]


def _only(digests: list[str]) -> str:
    assert len(set(digests)) == 1
    return digests[0]


def _bytes_with(params: dict[str, Any]) -> int:
    return _train("name", **params)[1]


def test_mxnets_two_bits_are_tbq() -> None:
    plain, compressed = run(_bytes_with, 2, {}), run(_bytes_with, 2, {"type": "2bit", "threshold": 0.1})
    broadcast = plain[0] / 4  # the first values and three steps' gradients: four equal parts
    assert compressed[0] - broadcast < (plain[0] - broadcast) / 14


def _wrong_parameters() -> str:
    hp.init()
    with pytest.raises(hp.InvalidArgument) as caught:
        mx.kv.create("hipress").set_gradient_compression({"treshold": 1})
    return str(caught.value)


def test_an_unknown_compression_parameter_is_named() -> None:
    assert "'treshold' does not exist" in run(_wrong_parameters, 1)[0]


def _save_and_load() -> str:
    hp.init()
    own = hp.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.25))
    assert type(own).__name__ == "DistributedSGD"
    assert isinstance(own, mx.optimizer.SGD)
    loaded = pickle.loads(pickle.dumps(own))
    return f"{type(loaded).__name__} {loaded.learning_rate}"


def test_a_saved_optimizer_is_the_plain_one() -> None:
    assert run(_save_and_load, 1) == ["SGD 0.25"]


def _fit(rank: int, size: int) -> dict[str, np.ndarray]:
    """The parameters after an epoch of Module.fit() on the rows of `rank`; of all ranks if it is negative."""
    every = np.random.default_rng(3).normal(size=(2, 4, BATCH, 16)).astype(np.float32)  # by rank, by step
    labels = np.arange(2 * 4 * BATCH).reshape(2, 4, BATCH) % 4
    inputs, labels = (each[rank] if rank >= 0 else each.swapaxes(0, 1) for each in (every, labels))
    rows = BATCH * (1 if rank >= 0 else size)
    batches = mx.io.NDArrayIter(inputs.reshape(-1, 16), labels.reshape(-1), rows)
    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="layer")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax"))
    options = {"learning_rate": 0.5}
    store = "hipress" if rank >= 0 else None
    module.fit(
        batches, optimizer="sgd", optimizer_params=options, kvstore=store, initializer=mx.init.One(), num_epoch=1
    )
    return {name: value.asnumpy() for name, value in module.get_params()[0].items()}


def _fit_and_alone() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    hp.init()
    return _fit(hp.rank(), 2), _fit(-1, 2)


def test_module_fit_takes_the_steps_of_one_process_with_all_batches() -> None:
    for found, expected in run(_fit_and_alone, 2):
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def _ignoring_stale() -> None:
    hp.init()
    net = mlp()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", kvstore="hipress")
    backward(net, hp.rank(), 0)
    for step in (trainer.step, trainer.update):
        with pytest.raises(hp.Unsupported, match=r"Use hp.DistributedTrainer"):
            step(BATCH, ignore_stale_grad=True)


def test_the_store_refuses_stale_gradients_that_it_cannot_know() -> None:
    run(_ignoring_stale, 2)


def _train_module(kvstore: bool) -> list[bytes]:
    hp.init()
    mx.random.seed(hp.rank())
    inputs = np.random.default_rng(hp.rank()).normal(size=(32, 16)).astype(np.float32)
    batches = mx.io.NDArrayIter(inputs, np.arange(32) % 4, BATCH)
    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="layer")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax"))
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.Xavier())
    values, states = module.get_params()
    hp.broadcast_parameters(values)
    module.set_params(values, states)
    if kvstore:
        module.init_optimizer("hipress", "sgd", {"rescale_grad": 1 / (BATCH * hp.size())})
    else:
        module.init_optimizer(None, hp.DistributedOptimizer(mx.optimizer.SGD(rescale_grad=1 / BATCH)))
    for batch in batches:
        module.forward_backward(batch)
        module.update()
    return [value.asnumpy().tobytes() for _, value in sorted(module.get_params()[0].items())]


@pytest.mark.parametrize("kvstore", [True, False], ids=["kvstore", "optimizer"])
def test_a_module_trains(kvstore: bool) -> None:
    first, second = run(_train_module, 2, kvstore)
    assert first == second


def _both_in_gluon() -> list[str]:
    hp.init()
    net = mlp()
    own = hp.DistributedOptimizer(mx.optimizer.SGD())
    trainer = mx.gluon.Trainer(net.collect_params(), own, kvstore="hipress")
    backward(net, hp.rank(), 0)
    texts = []
    for _ in range(2):  # a caught error does not make the trainer right
        with pytest.raises(hp.InvalidArgument) as caught:
            trainer.step(BATCH)
        texts.append(str(caught.value))
    mx.nd.waitall()  # for the broadcasts: the next test would get their errors
    return texts


def _both_in_a_module() -> list[str]:
    hp.init()
    batches = mx.io.NDArrayIter(np.ones((16, 16), np.float32), np.zeros(16), BATCH)
    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="layer")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax"))
    own = hp.DistributedOptimizer(mx.optimizer.SGD(rescale_grad=1 / (2 * BATCH)))
    with pytest.raises(hp.InvalidArgument) as caught:
        module.fit(batches, optimizer=own, kvstore="hipress", initializer=mx.init.One(), num_epoch=1)
    mx.nd.waitall()
    return [str(caught.value)]


@pytest.mark.parametrize("way", [_both_in_gluon, _both_in_a_module])
def test_gradients_do_not_travel_twice(way: Any) -> None:
    for text in (each for texts in run(way, 2) for each in texts):
        assert "leave out one: give the plain optimizer, or kvstore=None" in text
