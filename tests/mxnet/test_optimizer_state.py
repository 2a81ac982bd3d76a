# SPDX-License-Identifier: Apache-2.0
"""broadcast_optimizer_state() gives all ranks the root's optimizer bit for bit, and unpickles nothing."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.models import backward, fingerprint, mlp  # noqa: E402
from tests.mxnet.ranks import outcomes, run  # noqa: E402

ROOT = 1
BATCH = 8
OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1},
    "nag": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 1 / 300, "beta1": 0.8},
    "lamb": {"learning_rate": 0.01},
    "nadam": {"learning_rate": 0.01},
}


def _bits(value: Any) -> Any:
    if isinstance(value, mx.nd.NDArray):
        return value.dtype, value.shape, value.asnumpy().tobytes()
    if isinstance(value, dict):
        return [(key, _bits(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [_bits(each) for each in value]
    if isinstance(value, mx.lr_scheduler.LRScheduler):
        return type(value).__name__, _bits(vars(value))
    return type(value).__name__, value.hex() if isinstance(value, float) else value


def _state(trainer: Any) -> Any:
    optimizer = {name: value for name, value in vars(trainer._optimizer).items() if not name.startswith("param_dict")}
    return _bits(trainer._updaters[0].states), sorted(_bits(optimizer))


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("something was unpickled")


def _states(name: str, stepping: set[int]) -> tuple[Any, Any, str]:
    """This rank's state before and after the broadcast, and its parameters two steps later. `stepping`: the ranks that
    train before the broadcast."""
    hp.init()
    net = mlp(seed=hp.rank())
    options = {**OPTIMIZERS[name], "wd": 0.1 / (1 + hp.rank())}
    options["lr_scheduler"] = mx.lr_scheduler.FactorScheduler(step=1, factor=0.9, base_lr=options["learning_rate"])
    trainer = hp.DistributedTrainer(net.collect_params(), name, options)
    alone = mx.gluon.Trainer(net.collect_params(), trainer._optimizer, kvstore=None)
    if hp.rank() in stepping:
        for step in range(2 + hp.rank()):
            backward(net, hp.rank(), step)
            alone.step(BATCH)
        trainer._updaters[0].states = alone._updaters[0].states
        trainer._updaters[0].states_synced = alone._updaters[0].states_synced
    before = _state(trainer)
    hp.broadcast_parameters(net.collect_params(), root_rank=ROOT)
    loads, pickle.loads = pickle.loads, _refuse
    try:
        hp.broadcast_optimizer_state(trainer, root_rank=ROOT)
    finally:
        pickle.loads = loads
    after = _state(trainer)
    for step in range(2):
        backward(net, hp.rank(), step)
        trainer.step(BATCH)
    return before, after, fingerprint(net)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("stepping", [{0, 1}, {1}, {0}])
def test_all_ranks_have_the_roots_bits(name: str, stepping: set[int]) -> None:
    results = run(_states, 2, name, stepping)
    root = results[ROOT][0]
    assert results[0][0] != root
    assert [after for _, after, _ in results] == [root, root]
    assert results[0][2] == results[1][2]


def _wrapped() -> list[bool]:
    hp.init()
    net = mlp(seed=hp.rank())
    hp.broadcast_parameters(net.collect_params(), root_rank=0)
    optimizer = hp.DistributedOptimizer(mx.optimizer.create("sgd", learning_rate=0.1, momentum=0.9))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, kvstore=None)
    hp.broadcast_optimizer_state(trainer, root_rank=0)
    backward(net, hp.rank(), 0)
    trainer.step(BATCH)
    return [trainer._optimizer is optimizer, fingerprint(net)]


def test_a_distributed_optimizer_stays_distributed() -> None:
    results = run(_wrapped, 2)
    assert results[0] == results[1]
    assert results[0][0]


def _odd(kind: str) -> None:
    hp.init()
    net = mlp(seed=0)
    optimizer = mx.optimizer.create("adam" if kind == "class" and hp.rank() == ROOT else "sgd", learning_rate=0.1)
    if kind == "value":
        optimizer.history = {"steps": [1, object()]}
    elif kind == "scheduler" and hp.rank() == ROOT:
        optimizer.lr_scheduler = mx.lr_scheduler.FactorScheduler(step=1)
    hp.broadcast_optimizer_state(mx.gluon.Trainer(net.collect_params(), optimizer, kvstore=None), root_rank=ROOT)


def test_a_value_of_another_type_is_named_on_every_rank() -> None:
    for outcome in outcomes(_odd, 2, "value"):
        assert isinstance(outcome, hp.Unsupported)
        assert "trainer['optimizer']['values']['history']['steps'][1] is a builtins.object" in str(outcome)


@pytest.mark.parametrize(("kind", "other"), [("class", "Adam"), ("scheduler", "FactorScheduler")])
def test_another_class_is_refused(kind: str, other: str) -> None:
    outcome, root = outcomes(_odd, 2, kind)
    assert root is None
    assert isinstance(outcome, hp.InvalidArgument)
    assert f"of rank {ROOT} is a " in str(outcome)
    assert other in str(outcome)
