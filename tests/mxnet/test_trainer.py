# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainer: replicas stay identical, a step equals one process's step, and a failed step changes nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.models import backward, fingerprint, mlp, values  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402

BATCH = 8


def _train(steps: int, **options: Any) -> tuple[str, dict[str, np.ndarray]]:
    hp.init()
    net = mlp(seed=hp.rank())
    hp.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **options)
    for step in range(steps):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
    return fingerprint(net), values(net)


def _train_alone(world_size: int, steps: int) -> dict[str, np.ndarray]:
    """The parameters of one process that computes every rank's gradients and averages them."""
    net = mlp(seed=0)
    parameters = net.collect_params()
    trainer = mx.gluon.Trainer(parameters, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=None)
    for step in range(steps):
        total: list[mx.nd.NDArray] = []
        for rank in range(world_size):
            backward(net, rank, step)
            gradients = [parameter.grad().copy() for parameter in parameters.values()]
            total = [a + b for a, b in zip(total, gradients, strict=True)] if total else gradients
        for parameter, gradient in zip(parameters.values(), total, strict=True):
            parameter.grad()[:] = gradient / world_size
        trainer.step(BATCH)
    return values(net)


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_uncompressed_steps_are_those_of_one_process_with_all_batches(world_size: int) -> None:
    results = run(_train, world_size, 4)
    for name, expected in _train_alone(world_size, 4).items():
        np.testing.assert_allclose(results[0][1][name], expected, rtol=1e-4, atol=1e-6, err_msg=name)
    assert len({digest for digest, _ in results}) == 1


def _train_with(codec: str, topology: str) -> str:
    return _train(4, codec=codec, topology=topology, partitions=2)[0]


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather"])
@pytest.mark.parametrize(
    "codec", ["fp16", "onebit", "tbq", "terngrad", "dgc(ratio=0.1)", "graddrop(ratio=0.1)", "int8"]
)
def test_replicas_are_identical(codec: str, topology: str) -> None:
    assert len(set(run(_train_with, 3, codec, topology))) == 1


def _lose_a_rank(how: str) -> tuple[str, bool]:
    hp.init(timeout=4)
    net = mlp()
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(2):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
    before = values(net)
    if hp.rank() == 1:
        if how == "leaves":
            return "", True
        time.sleep(8)
    try:
        backward(net, hp.rank(), 2)
        trainer.step(BATCH)
        mx.nd.waitall()
    except hp.HipressError as error:
        after = values(net)
        return f"{type(error).__name__}: {error}", all((before[name] == after[name]).all() for name in before)
    return "no error", False


@pytest.mark.parametrize(("how", "kind"), [("leaves", "PeerLost"), ("is late", "Timeout")])
def test_a_failed_step_raises_its_error_and_changes_no_parameter(how: str, kind: str) -> None:
    (error, unchanged), _ = run(_lose_a_rank, 2, how)
    assert error.startswith(f"{kind}: ")
    assert "rank 1" in error
    assert unchanged


def _different_parameters() -> None:
    hp.init()
    net = mlp(hidden=300 + hp.rank())
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd")
    backward(net, hp.rank(), 0)
    trainer.step(BATCH)


def test_different_parameters_are_an_error_on_every_rank() -> None:
    for error in outcomes(_different_parameters, 2):
        assert isinstance(error, hp.Mismatch)
        assert "net_dense0_weight" in str(error)


def _train_deferred() -> tuple[str, list[str]]:
    hp.init()
    net = mlp(seed=hp.rank(), features=0)  # MXNet knows the shapes after the first forward pass
    hp.broadcast_parameters(net.collect_params(), root_rank=1)
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", codec="tbq", codec_for={"net_dense0_weight": "fp16"})
    for step in range(2):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
    return fingerprint(net), list(net.collect_params())


def test_parameters_that_are_initialised_later_are_broadcast_then() -> None:
    results = run(_train_deferred, 2)
    assert results[0] == results[1]


def _change_codec() -> str:
    hp.init()
    net = mlp()
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, codec="graddrop(ratio=0.1)")
    for step, codec in enumerate(["graddrop(ratio=0.05)", "onebit", "fp16", "none"]):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
        trainer.set_codec(codec)
    backward(net, hp.rank(), 9)
    trainer.step(BATCH)
    return fingerprint(net)


def test_codecs_change_between_steps_and_what_they_held_back_arrives() -> None:
    assert len(set(run(_change_codec, 2))) == 1


def _residual_joins() -> np.ndarray:
    hp.init()
    weight = mx.gluon.Parameter("w", shape=(2000,))
    weight.initialize(mx.init.Zero())
    trainer = hp.DistributedTrainer([weight], "sgd", {"learning_rate": 1.0}, codec="graddrop(ratio=0.01)")
    for codec in ("none", "none"):
        weight.grad()[:] = mx.nd.arange(2000) + 1
        weight.data()._fresh_grad = True
        trainer.step(1)
        trainer.set_codec(codec)
    return weight.data().asnumpy()


def test_what_a_codec_dropped_joins_the_next_gradient_without_it() -> None:
    for weight in run(_residual_joins, 2):
        np.testing.assert_allclose(-weight, 2.0 * (np.arange(2000) + 1), rtol=1e-5)


def _use_a_part(used_by: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    hp.init()
    net = mlp()
    extra = mx.gluon.nn.Dense(3, in_units=2, prefix="extra_")
    extra.initialize()
    hp.broadcast_parameters(extra.collect_params())
    parameters = {**net.collect_params(), **extra.collect_params()}
    before = {name: parameter.data().asnumpy() for name, parameter in parameters.items()}
    trainer = hp.DistributedTrainer(parameters, "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        loss = net(mx.nd.ones((1, 16))).sum()
        if hp.rank() == used_by:
            loss = loss + extra(mx.nd.ones((1, 2))).sum()
    loss.backward()
    trainer.step(1, ignore_stale_grad=True)
    return before, {name: parameter.data().asnumpy() for name, parameter in parameters.items()}


def test_parameters_that_one_rank_uses_are_updated_on_all() -> None:
    for before, after in run(_use_a_part, 2, 1):
        np.testing.assert_allclose(after["extra_bias"], before["extra_bias"] - 0.1 / 2, rtol=1e-6)


def test_parameters_that_no_rank_uses_stay() -> None:
    for before, after in run(_use_a_part, 2, -1):
        np.testing.assert_array_equal(after["extra_weight"], before["extra_weight"])


def _leave_out_a_part() -> tuple[list[np.ndarray], list[int]]:
    """The residual of a part after each step, and the bytes that each step sent: the part is used in the first and the
    third of three steps."""
    hp.init()
    mx.random.seed(hp.rank())
    parts = [mx.gluon.Parameter(name, shape=(4096,)) for name in ("a", "b")]
    for part in parts:
        part.initialize(mx.init.Zero())
    trainer = hp.DistributedTrainer(parts, "sgd", codec="onebit", min_compress_bytes=0)
    residuals, sent = [], []
    for used in (2, 1, 2):
        before = hp.counters()["bytes_sent"]
        with mx.autograd.record():
            loss = sum((part.data() * mx.nd.random.normal(shape=(4096,))).sum() for part in parts[:used])
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        mx.nd.waitall()
        sent.append(hp.counters()["bytes_sent"] - before)
        residuals.append(hp.codec_states(trainer, exact=True)["b/residual"].asnumpy())
    return residuals, sent


def test_a_parameter_that_no_rank_uses_sends_nothing_and_keeps_its_residual() -> None:
    for (first, second, third), sent in run(_leave_out_a_part, 2):
        assert np.abs(first).max() > 0
        np.testing.assert_array_equal(second, first)
        assert (third != second).any()
        assert sent[1] < 0.6 * sent[2]


def _train_embedding(sparse_as_dense: bool) -> np.ndarray:
    hp.init()
    layer = mx.gluon.nn.Embedding(10, 4, sparse_grad=True, prefix="words_")
    layer.initialize(mx.init.One())
    trainer = hp.DistributedTrainer(
        layer.collect_params(), "sgd", {"learning_rate": 1.0}, sparse_as_dense=sparse_as_dense
    )
    with mx.autograd.record():
        loss = layer(mx.nd.array([hp.rank()])).sum()
    loss.backward()
    trainer.step(1)
    return layer.weight.data().asnumpy()


def test_sparse_gradients_are_synchronised_as_dense_ones() -> None:
    expected = np.ones((10, 4))
    expected[:2] = 0.5
    for weight in run(_train_embedding, 2, True):
        np.testing.assert_array_equal(weight, expected)


def test_sparse_gradients_are_refused_with_advice() -> None:
    (error,) = outcomes(_train_embedding, 1, False)
    assert isinstance(error, hp.InvalidArgument)
    assert "sparse_as_dense=True" in str(error)


def _wrong_options() -> list[str]:
    hp.init()
    net = mlp()
    found = []
    for options in ({"codec": "twobit"}, {"codec_for": {"dense9": "fp16"}}, {"topology": "star"}):
        trainer = hp.DistributedTrainer(net.collect_params(), "sgd", **options)
        backward(net, 0, 0)
        with pytest.raises(hp.InvalidArgument) as caught:
            trainer.step(1)
        found.append(str(caught.value))
    return found


def test_wrong_options_are_named() -> None:
    codec, name, topology = run(_wrong_options, 1)[0]
    assert "twobit" in codec
    assert "dense9" in name
    assert "star" in topology


def _clip() -> tuple[list[np.ndarray], float]:
    hp.init()
    net = mlp()
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    backward(net, hp.rank(), 0)
    trainer.allreduce_grads()
    gradients = [parameter.grad() for parameter in net.collect_params().values()]
    reduced = [gradient.asnumpy() for gradient in gradients]
    norm = mx.gluon.utils.clip_global_norm(gradients, 0.1)
    trainer.update(1)
    return reduced, norm


def test_gradients_can_be_clipped_between_reduction_and_update() -> None:
    results = run(_clip, 2)
    for first, second in zip(*(reduced for reduced, _ in results), strict=True):
        np.testing.assert_array_equal(first, second)
    assert results[0][1] == results[1][1] > 0.1


def _one_gradient_is_not_finite(codec: str) -> list[bool]:
    hp.init()
    weight = mx.gluon.Parameter("w", shape=(3000,))
    weight.initialize(mx.init.Zero())
    trainer = hp.DistributedTrainer([weight], "sgd", codec=codec)
    found = []
    for value in (float("nan"), 1.0):
        weight.grad()[:] = 0.5
        if hp.rank() == 1:
            weight.grad()[7] = value
        trainer.allreduce_grads()
        found.append(bool(np.isfinite(weight.grad().asnumpy()).all()))
    return found


@pytest.mark.parametrize("codec", ["none", "onebit", "dgc(ratio=0.1)"])
def test_what_is_not_finite_on_one_rank_is_not_finite_on_all_and_leaves_no_trace(codec: str) -> None:
    assert run(_one_gradient_is_not_finite, 2, codec) == [[False, True]] * 2


def _train_with_forked_workers() -> str:
    hp.init()
    net = mlp(seed=hp.rank())
    hp.broadcast_parameters(net.collect_params())
    trainer = hp.DistributedTrainer(net.collect_params(), "adam", codec="onebit")
    samples = np.random.default_rng(hp.rank()).normal(size=(32, 16)).astype(np.float32)
    dataset = mx.gluon.data.ArrayDataset(samples, np.arange(32, dtype=np.float32) % 4)
    for inputs, labels in mx.gluon.data.DataLoader(dataset, BATCH, num_workers=2):
        with mx.autograd.record():
            loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(inputs), labels)
        loss.backward()
        trainer.step(BATCH)
    return fingerprint(net)


def test_data_loaders_fork_while_gradients_are_on_their_way() -> None:
    assert len(set(run(_train_with_forked_workers, 2))) == 1
