# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainer: replicas stay identical, steps are those of one process, and a failed one changes nothing."""

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
    """One process that computes every rank's gradients and averages them."""
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
@pytest.mark.parametrize("codec", ["fp16", "onebit", "tbq", "terngrad", "dgc(ratio=0.1)", "graddrop(ratio=0.1)"])
def test_replicas_are_identical(codec: str, topology: str) -> None:
    assert len(set(run(_train_with, 3, codec, topology))) == 1


def _lose_a_rank(how: str) -> tuple[str, bool]:
    hp.init(timeout=2)
    net = mlp()
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for step in range(2):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
    before = values(net)
    if hp.rank() == 1:
        if how == "leaves":
            return "", True
        time.sleep(4)
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
