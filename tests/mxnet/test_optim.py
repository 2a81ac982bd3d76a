# SPDX-License-Identifier: Apache-2.0
"""Every step of Gluon's OneBitAdam and DGCSGD equals the papers' step, replayed in NumPy; states can be saved, and
wrong use is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from hipress.mxnet.optim import DGC_RATIOS, DGCSGD, OneBitAdam, Warmup  # noqa: E402
from tests.adapter.optim import replays  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

pytestmark = pytest.mark.slow

_BATCH = 4


def _adam(params: Any, **options: Any) -> OneBitAdam:
    given = {
        "learning_rate": replays.ADAM["lr"],
        "beta2": replays.ADAM["beta_2"],
        "wd": replays.ADAM["weight_decay"],
        "freeze_step": replays.FREEZE,
    }
    return OneBitAdam(params, **{**given, **options})


def _sgd(params: Any, **options: Any) -> DGCSGD:
    given = {
        "learning_rate": replays.SGD["lr"],
        "wd": replays.SGD["weight_decay"],
        "ratio": replays.SGD["ratio"],
        "clip_norm": replays.SGD["clip_norm"],
        "nesterov": True,
        "warmup": Warmup(5, ratios=DGC_RATIOS),
    }
    return DGCSGD(params, **{**given, **options})


_MAKERS = {"adam": _adam, "sgd": _sgd}


def _params() -> dict[str, Any]:
    params = {name: mx.gluon.Parameter(name, shape=shape) for name, shape in replays.SHAPES.items()}
    for name, value in replays.start().items():
        params[name].initialize()
        params[name].set_data(mx.nd.array(value))
    return params


def _step(trainer: Any, params: dict[str, Any], step: int) -> None:
    for name, each in params.items():
        value = replays.gradient(name, each.data().asnumpy(), hp.rank(), step)
        each.grad()[:] = mx.nd.array(value * _BATCH)
    trainer.step(_BATCH)


def _values(params: dict[str, Any]) -> replays.Values:
    return {name: each.data().asnumpy() for name, each in params.items()}


def _history(kind: str, folder: str) -> list[replays.Values]:
    """The parameters after each step. After step 3 the states are saved and loaded; DGCSGD loads them in a new
    trainer."""
    hp.init()
    params = _params()
    trainer = _MAKERS[kind](params)
    history = []
    for step in range(1, replays.STEPS + 1):
        if step == 4:
            path = f"{folder}/{hp.rank()}.npz"
            trainer.save_states(path)
            if kind == "sgd":  # OneBitAdam names its compressed averages, and the replay needs the same names
                trainer = _MAKERS[kind](params)
            trainer.load_states(path)
        assert trainer.steps == step - 1
        _step(trainer, params, step)
        history.append(_values(params))
    return history


def test_onebit_adam_takes_the_steps_of_the_paper(tmp_path: Path) -> None:
    replays.check(run(_history, 2, "adam", str(tmp_path)), replays.onebit_adam(2))


def test_dgc_sgd_takes_the_steps_of_the_paper(tmp_path: Path) -> None:
    ratios = [*DGC_RATIOS, *[replays.SGD["ratio"]] * (replays.STEPS - 5)]
    replays.check(run(_history, 2, "sgd", str(tmp_path)), replays.dgc_sgd(2, ratios))


def _refusals(folder: str) -> None:
    with pytest.raises(hp.NotInitialized):
        _adam(_params())
    hp.init()
    params = _params()
    for kind, options, message in [
        ("adam", {"freeze_step": 0}, "freeze_step=0: give 1 or more"),
        ("adam", {"freeze_step": 2.5}, "freeze_step=2.5"),
        ("adam", {"beta1": 1.0}, "beta_1=1.0"),
        ("adam", {"epsilon": float("nan")}, "epsilon=nan"),
        ("adam", {"learning_rate": -1.0}, "learning_rate=-1.0"),
        ("adam", {"codec": "unheard"}, "unheard"),
        ("adam", {"codec_for": {"strange": "fp16"}}, "'strange'"),
        ("sgd", {"ratio": 0.0}, "ratio=0.0"),
        ("sgd", {"momentum": 1.0}, "momentum=1.0"),
        ("sgd", {"clip_norm": 0.0}, "clip_norm=0.0"),
        ("sgd", {"warmup": Warmup(3, "onebit")}, "DGCSGD has no codec"),
        ("sgd", {"wd": -0.1}, "wd=-0.1"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            _MAKERS[kind](params, **options)
    with pytest.raises(hp.InvalidArgument, match="'unknown' has no shape yet"):
        _adam({"unknown": mx.gluon.Parameter("unknown", shape=(0, 3), allow_deferred_init=True)})
    with pytest.raises(hp.Unsupported, match="'half' is of type float16"):
        _adam({"half": mx.gluon.Parameter("half", shape=(3,), dtype="float16")})
    trainer = _adam(params)
    _step(trainer, params, 1)
    path = f"{folder}/states.npz"
    trainer.save_states(path)
    before = _values(params)
    sgd = _sgd(params)
    sgd.save_states(f"{folder}/sgd.npz")
    with open(path, "rb") as file:
        whole = file.read()
    for place, (name, content, message) in enumerate(
        [
            ("cut.npz", whole[: len(whole) // 2], "is damaged"),
            ("altered.npz", whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:], "is damaged"),
            ("empty.npz", b"", "is damaged"),
        ]
    ):
        with open(f"{folder}/{place}{name}", "wb") as file:
            file.write(content)
        with pytest.raises(hp.InvalidArgument, match=message):
            trainer.load_states(f"{folder}/{place}{name}")
    with pytest.raises(hp.InvalidArgument, match="no states of OneBitAdam"):
        trainer.load_states(f"{folder}/sgd.npz")
    other = mx.gluon.Parameter("large", shape=(3, 3))
    other.initialize()
    with pytest.raises(hp.InvalidArgument, match=r"'large/momentum' .* shape \(200, 240\)"):
        _adam({"large": other}).load_states(path)
    with pytest.raises(FileNotFoundError):
        trainer.load_states(f"{folder}/none.npz")
    for name, each in params.items():
        each.grad()[:] = 0 if name == "odd" else 1
    unused = _adam(params, freeze_step=1)
    with pytest.raises(hp.InvalidArgument, match="'odd' has had no gradient in the first 1 steps"):
        unused.step(1)
    assert unused.steps == 0
    assert trainer.steps == 1
    assert all(np.array_equal(before[name], each) for name, each in _values(params).items())


def test_what_makes_no_step_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    run(_refusals, 1, str(tmp_path))


def _wrapped() -> None:
    hp.init()
    for make in _MAKERS.values():
        params = _params()
        trainer = make(params)
        with pytest.raises(hp.InvalidArgument, match=f"{type(trainer).__name__} takes the place of an optimizer and"):
            hp.DistributedOptimizer(trainer)
        with pytest.raises(hp.InvalidArgument, match="takes the plain optimizer: it synchronises gradients itself"):
            hp.DistributedTrainer(params, trainer)
        assert type(trainer) is type(make(params))
    with pytest.raises(
        hp.InvalidArgument, match=r"takes an optimizer of MXNet, such as mx.optimizer.SGD\(\), not 'sgd'"
    ):
        hp.DistributedOptimizer("sgd")


def test_a_trainer_that_exchanges_values_itself_is_not_wrapped_again() -> None:
    run(_wrapped, 1)


_SAVED_AT = {"adam": (2, replays.FREEZE), "sgd": (2, 5)}


def _bytes_of_steps(kind: str, folder: str, saved_at: int) -> list[int]:
    """The bytes that this rank sends in each step; from the states that were saved after step `saved_at` on."""
    hp.init()
    params = _params()
    trainer = _MAKERS[kind](params)
    if saved_at:
        trainer.load_states(f"{folder}/{kind} {saved_at} {hp.rank()}.npz")
    sent = []
    for step in range(saved_at + 1, 9):
        before = hp.counters()["bytes_sent"]
        _step(trainer, params, step)
        sent.append(hp.counters()["bytes_sent"] - before)
        trainer.save_states(f"{folder}/{kind} {step} {hp.rank()}.npz")
    return sent


@pytest.mark.parametrize("kind", _MAKERS)
def test_a_fresh_trainer_goes_on_in_the_phase_in_which_the_states_were_saved(kind: str, tmp_path: Path) -> None:
    """The steps before the variance is frozen, and the ratios of the warm-up: in the middle, and at its end."""
    straight = run(_bytes_of_steps, 2, kind, str(tmp_path), 0)
    assert straight[0][1] > 2 * straight[0][7]
    for saved_at in _SAVED_AT[kind]:
        resumed = run(_bytes_of_steps, 2, kind, str(tmp_path), saved_at)
        assert resumed == [each[saved_at:] for each in straight]


def _differing() -> list[bool]:
    """By optimizer: whether every parameter contains a NaN on all ranks after the gradients of rank 1 were NaN."""
    hp.init()
    params = _params()
    with pytest.raises(hp.Mismatch, match="the options"):
        _adam(params, freeze_step=2 + hp.rank())
    with pytest.raises(hp.Mismatch, match="the options"):
        _sgd(params, learning_rate=0.1 + hp.rank())
    with pytest.raises(hp.Mismatch, match="the parameters"):
        _sgd({name: each for name, each in params.items() if name != "odd" or hp.rank() == 0})
    results = []
    for kind in _MAKERS:
        params = _params()
        trainer = _MAKERS[kind](params)
        for step in range(1, 7):
            _step(trainer, params, step)
        for each in params.values():
            each.grad()[:] = 1
            if hp.rank() == 1:
                each.grad()[:] = float("nan")
        trainer.step(1)
        values = _values(params)
        assert len(set(hp.allgather_object(b"".join(each.tobytes() for each in values.values())))) == 1
        results.append(all(np.isnan(each).any() for each in values.values()))
    return results


def test_ranks_that_differ_all_learn_it_and_a_nan_reaches_all() -> None:
    assert run(_differing, 2) == [[True, True], [True, True]]
