# SPDX-License-Identifier: Apache-2.0
"""MXNet's loss scaling (amp) with each way to train: all ranks leave out the same steps, or the way is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from mxnet.contrib import amp  # noqa: E402

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.models import backward, batch, fingerprint, mlp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

#: A gradient that is not finite comes at these steps, on one rank only.
_STEPS, _OVERFLOWS = 8, (3, 4)


@contextmanager
def _initialised_amp() -> Iterator[None]:
    """amp.init_trainer() works here. amp.init() would change MXNet's operators for the tests that follow."""
    before = amp.amp._amp_initialized, amp.amp._amp_loss_scale_initialized
    amp.amp._amp_initialized = amp.amp._amp_loss_scale_initialized = True
    try:
        yield
    finally:
        amp.amp._amp_initialized, amp.amp._amp_loss_scale_initialized = before


def _trainer(way: str, net: Any, codec: str) -> Any:
    parameters, options = net.collect_params(), {"codec": codec, "min_compress_bytes": 0}
    if way == "kvstore":
        return mx.gluon.Trainer(
            parameters, "sgd", {"learning_rate": 0.1}, kvstore="hipress", compression_params=options
        )
    return hp.DistributedTrainer(parameters, "sgd", {"learning_rate": 0.1}, **options)


def _step(net: Any, trainer: Any, number: int, *, overflows: bool) -> None:
    inputs, labels = batch(hp.rank(), number)
    with mx.autograd.record():
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(inputs), labels)
        with amp.scale_loss(loss, trainer) as scaled:
            mx.autograd.backward(scaled * (np.inf if overflows and number == _OVERFLOWS[0] else 1.0))
    if overflows and number == _OVERFLOWS[1]:
        next(iter(net.collect_params().values())).grad()[:] = np.inf  # of one parameter only
    trainer.step(8 * (hp.size() if trainer._kvstore_params["kvstore"] else 1))


def _train(way: str, codec: str) -> tuple[list[str], list[float]]:
    hp.init()
    net = mlp()
    trainer = _trainer(way, net, codec)
    with _initialised_amp():
        amp.init_trainer(trainer)
    trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = 1024.0
    seen, scales = [], []
    for number in range(_STEPS):
        _step(net, trainer, number, overflows=number in _OVERFLOWS and hp.rank() == 1)
        seen.append(fingerprint(net))
        scales.append(trainer._amp_loss_scaler._next_loss_scale)
    return seen, scales


@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("way", ["trainer", "kvstore"])
def test_all_ranks_leave_out_the_steps_that_are_not_finite_on_one(way: str, codec: str) -> None:
    (first, scales), second = run(_train, 2, way, codec)
    assert second == (first, scales)
    assert len(set(first)) == _STEPS - len(_OVERFLOWS)
    assert scales == [1024.0] * 3 + [512.0, 256.0] + [256.0] * 3


def _scaled_steps(way: str, codec: str, scaled: bool) -> str:
    """The parameters after steps under a scale that grows and shrinks, or after the steps without a scale."""
    hp.init()
    net = mlp()
    trainer = _trainer(way, net, codec)
    if scaled:
        with _initialised_amp():
            amp.init_trainer(trainer)
        trainer._amp_loss_scaler._scale_seq_len = 2
        trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = 1024.0
    for number in range(_STEPS):
        if scaled:
            _step(net, trainer, number, overflows=number in _OVERFLOWS and hp.rank() == 1)
        elif number not in _OVERFLOWS:
            backward(net, hp.rank(), number)
            trainer.step(8 * (hp.size() if way == "kvstore" else 1))
    return fingerprint(net)


@pytest.mark.parametrize("codec", ["onebit", "topk(ratio=0.1)", "int4"])
@pytest.mark.parametrize("way", ["trainer", "kvstore"])
def test_a_loss_scale_and_its_changes_leave_no_trace_in_what_a_codec_keeps(way: str, codec: str) -> None:
    assert run(_scaled_steps, 2, way, codec, True) == run(_scaled_steps, 2, way, codec, False)


def _optimizer() -> None:
    hp.init()
    net = mlp()
    own = hp.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.1))
    trainer = mx.gluon.Trainer(net.collect_params(), own, kvstore=None)
    with _initialised_amp():
        amp.init_trainer(trainer)
    with pytest.raises(hp.Unsupported, match=r"Use hp.DistributedTrainer\(params, optimizer\)"):
        _step(net, trainer, 0, overflows=False)


def test_a_scaler_before_the_ranks_combine_gradients_is_refused() -> None:
    run(_optimizer, 2)


def _without_the_scale(scales: list[float]) -> list[np.ndarray[Any, Any]]:
    hp.init()
    averages = []
    for step, scale in enumerate(scales):
        gradient = mx.nd.array(np.random.default_rng([step, hp.rank()]).normal(size=4096)) * scale
        averages.append(((hp.allreduce(gradient / scale, name="g", codec="onebit") * scale) / scale).asnumpy())
    return averages


def test_collectives_keep_residuals_in_the_unit_of_the_values_that_they_get() -> None:
    scaled, plain = (run(_without_the_scale, 2, scales) for scales in ([1024.0, 64.0, 64.0], [1.0] * 3))
    np.testing.assert_array_equal(scaled, plain)
    assert np.abs(plain[0][2] - plain[0][1]).max() > 0.1
