# SPDX-License-Identifier: Apache-2.0
"""Models that come and go in one process leave nothing behind."""

from __future__ import annotations

import gc
import os

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402


def _kept() -> tuple[int, int, int]:
    """Threads, open files, and bytes of states."""
    gc.collect()
    mx.nd.waitall()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), hp.memory_stats()["state_bytes"]


def _many(way: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    hp.init()

    def one() -> None:
        weight = mx.gluon.Parameter("w", shape=(4096,))
        weight.initialize(mx.init.Zero())
        if way == "kvstore":
            params = {"codec": "onebit"}
            trainer = mx.gluon.Trainer([weight], "sgd", kvstore="hipress", compression_params=params)
        elif way == "optimizer":
            own = hp.DistributedOptimizer(mx.optimizer.SGD(), codec="onebit")
            trainer = mx.gluon.Trainer([weight], own, kvstore=None)
        else:
            trainer = hp.DistributedTrainer([weight], "sgd", codec="onebit")
        with mx.autograd.record():
            loss = weight.data().sum()
        loss.backward()
        trainer.step(1)

    for _ in range(20):
        one()
    before = _kept()
    for _ in range(180):
        one()
    return before, _kept()


@pytest.mark.parametrize("way", ["trainer", "optimizer", "kvstore"])
def test_two_hundred_models_leave_no_thread_no_file_and_no_state(way: str) -> None:
    for before, after in run(_many, 2, way):
        assert after == before
