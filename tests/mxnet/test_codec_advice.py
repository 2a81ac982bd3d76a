# SPDX-License-Identifier: Apache-2.0
"""HiPress warns if one of MXNet's optimizers gets a codec that does not suit it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from hipress.adapter.optim.optimizer_traits import traits_of  # noqa: E402
from tests.mxnet.models import backward, mlp  # noqa: E402

ADAM_LIKE = ["adam", "adamax", "nadam", "adagrad", "adadelta", "rmsprop", "ftrl", "ftml", "lamb", "groupadagrad"]
OTHERS = ["sgd", "nag", "signum", "sgld", "dcasgd"]


@pytest.fixture(autouse=True)
def alone() -> Any:
    hp.init()
    yield
    hp.shutdown()


def said(wrap: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wrap()
    return [str(warning.message) for warning in caught if issubclass(warning.category, hp.CodecWarning)]


def trainer(name: str, **options: Any) -> Any:
    return hp.DistributedTrainer(mlp(seed=0).collect_params(), name, **options)


@pytest.mark.parametrize("name", ADAM_LIKE)
def test_error_feedback_with_second_moments(name: str) -> None:
    (text,) = said(lambda: trainer(name, codec="graddrop"))
    (wrapped,) = said(lambda: hp.DistributedOptimizer(mx.optimizer.create(name), codec="graddrop"))
    assert text == wrapped
    for part in ("graddrop", f" {name} ", '"int8" or "int4"', "mxnet.optim.onebitadam", "choosing-a-codec.md"):
        assert part in text.lower()
    assert said(lambda: trainer(name, codec="terngrad(bitwidth=4)")) == []


@pytest.mark.parametrize("name", OTHERS)
def test_optimizers_without_second_moments(name: str) -> None:
    assert said(lambda: trainer(name, codec="onebit")) == []


def test_trainings_have_shown_a_loss() -> None:
    (text,) = said(lambda: trainer("sgd", optimizer_params={"momentum": 0.9}, codec="onebit"))
    assert "evidence --optimizer momentum" in text


@pytest.mark.parametrize("name", ["sgd", "nag"])
def test_momentum_twice(name: str) -> None:
    (text,) = said(lambda: trainer(name, optimizer_params={"momentum": 0.9}, codec="dgc"))
    assert "twice" in text
    assert "hipress.mxnet.optim.DGCSGD" in text
    assert said(lambda: trainer(name, optimizer_params={"momentum": 0.0}, codec="dgc")) == []


def test_automatic_plans_say_that_they_leave_a_codec_out() -> None:
    (text,) = said(lambda: trainer("adam", codec="onebit", plan="auto"))
    assert "automatic plans leave out" in text


def _gluon(optimizer: str) -> None:
    net = mlp(seed=0)
    params = {"codec": "onebit"}
    with_store = mx.gluon.Trainer(net.collect_params(), optimizer, kvstore="hipress", compression_params=params)
    for step in range(2):
        backward(net, 0, step)
        with_store.step(8)


def _module(optimizer: str) -> None:
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    module = mx.module.Module(symbol, compression_params={"codec": "onebit"})
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer(kvstore="hipress", optimizer=optimizer)


@pytest.mark.parametrize("make", [_gluon, _module])
def test_behind_the_kvstore(make: Callable[[str], None]) -> None:
    (text,) = said(lambda: make("adam"))
    assert "'onebit'" in text
    assert "Adam" in text
    assert said(lambda: make("sgd")) == []


def test_kinds_of_optimizers_for_an_automatic_codec() -> None:
    kinds = {
        "sgd": mx.optimizer.SGD(),
        "momentum": mx.optimizer.SGD(momentum=0.9),
        "adam": mx.optimizer.Adam(),
        "lamb": mx.optimizer.LAMB(),
        "unknown": mx.optimizer.Signum(),
    }
    assert {kind: traits_of(optimizer).kind for kind, optimizer in kinds.items()} == {kind: kind for kind in kinds}


def test_only_the_trainer_takes_an_automatic_codec() -> None:
    with pytest.raises(hp.Unsupported, match="measures whole steps"):
        hp.DistributedOptimizer(mx.optimizer.SGD(), codec="auto")
    net = mx.gluon.nn.Dense(3, in_units=2)
    net.initialize()
    for optimizer in ("sgd", mx.optimizer.Adam()):
        hp.DistributedTrainer(net.collect_params(), optimizer, codec="auto")
