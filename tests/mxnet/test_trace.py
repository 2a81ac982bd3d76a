# SPDX-License-Identifier: Apache-2.0
"""A trace of HIPRESS_TRACE shows synchronisation inside backward."""

from __future__ import annotations

from pathlib import Path

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402
from tests.overlap import check_that_backward_overlaps  # noqa: E402

WORLD = 2


def _traced_steps() -> None:
    hp.init()
    net = mx.gluon.nn.HybridSequential()
    for _ in range(8):
        net.add(mx.gluon.nn.Dense(600, in_units=600))
    net.initialize()
    hp.broadcast_parameters(net.collect_params())
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", codec="onebit", partitions=2)
    inputs = mx.nd.random.uniform(shape=(256, 600))
    for _ in range(3):
        with mx.autograd.record():
            loss = net(inputs).square().mean()
        loss.backward()
        trainer.step(1)
    mx.nd.waitall()


def test_encoding_and_sending_happen_inside_backward(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run(_traced_steps, WORLD, HIPRESS_TRACE=str(file))
    check_that_backward_overlaps(file, WORLD, 3)
