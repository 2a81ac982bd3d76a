# SPDX-License-Identifier: Apache-2.0
"""Arguments and gradients that allow no step raise errors and change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.torch.optim import DGCSGD, DeMo, OneBitAdam, OneBitLamb, Signum, Warmup, ZeroOneAdam
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _adam(named: Any, **options: Any) -> OneBitAdam:
    return OneBitAdam(named, **{"freeze_step": 2, **options})


def _sgd(named: Any, **options: Any) -> DGCSGD:
    return DGCSGD(named, **{"lr": 0.1, **options})


def _lamb(named: Any, **options: Any) -> OneBitLamb:
    return OneBitLamb(named, **{"freeze_step": 2, **options})


def _refusals() -> None:
    named = problem.parameters()
    with pytest.raises(hp.NotInitialized):
        _adam(named.items())
    hp.init()
    for codec in ("powersgd", "int8_shared"):
        with pytest.raises(hp.Unsupported, match=f"{codec}' averages gradients"):
            _adam(named.items(), codec=codec)
        with pytest.raises(hp.Unsupported, match=f"{codec}' averages gradients"):
            _lamb(named.items(), codec=codec)
    for make, options, message in [
        (_adam, {"freeze_step": 0}, "freeze_step=0: give 1 or more"),
        (_adam, {"freeze_step": 2.5}, "freeze_step=2.5"),
        (_adam, {"freeze_step": True}, "freeze_step=True"),
        (_adam, {"lr": -1.0}, "lr=-1.0"),
        (_adam, {"eps": float("nan")}, "eps=nan"),
        (_adam, {"betas": (0.9, 1.0)}, "betas="),
        (_adam, {"codec": "unheard"}, "unheard"),
        (_adam, {"codec_for": {"strange": "fp16"}}, "'strange'"),
        (_adam, {"min_compress_bytes": -1}, "min_compress_bytes=-1"),
        (ZeroOneAdam, {"var_freeze_step": 0}, "var_freeze_step=0: give a whole number of 1 or more"),
        (ZeroOneAdam, {"var_update_scaler": 2.0}, "var_update_scaler=2.0"),
        (ZeroOneAdam, {"local_step_scaler": True}, "local_step_scaler=True"),
        (ZeroOneAdam, {"local_step_clipper": 0}, "local_step_clipper=0"),
        (ZeroOneAdam, {"betas": (1.0, 0.9)}, "betas="),
        (ZeroOneAdam, {"lr": float("inf")}, "lr=inf"),
        (ZeroOneAdam, {"codec": "unheard"}, "unheard"),
        (_lamb, {"freeze_step": 0}, "freeze_step=0: give 1 or more"),
        (_lamb, {"weight_decay": -0.1}, "weight_decay=-0.1"),
        (_lamb, {"min_coeff": 0.0}, "min_coeff, max_coeff=0.0, 10.0"),
        (_lamb, {"max_coeff": float("inf")}, "min_coeff, max_coeff=0.01, inf"),
        (_lamb, {"factor_min": 2.0, "factor_max": 1.0}, "factor_min, factor_max=2.0, 1.0"),
        (_lamb, {"factor_max": float("nan")}, "factor_min, factor_max=0.5, nan"),
        (_lamb, {"coeff_beta": 1.0}, "coeff_beta=1.0"),
        (_lamb, {"factor_threshold": -0.1}, "factor_threshold=-0.1"),
        (_lamb, {"codec": "unheard"}, "unheard"),
        (_sgd, {"ratio": 0.0}, "ratio=0.0"),
        (_sgd, {"momentum": 1.0}, "momentum=1.0"),
        (_sgd, {"clip_norm": 0.0}, "clip_norm=0.0"),
        (_sgd, {"weight_decay": -0.1}, "weight_decay=-0.1"),
        (_sgd, {"warmup": Warmup(3, "onebit")}, "DGCSGD has no codec"),
        (_sgd, {"warmup": 2.0}, "warmup=2.0"),
        (DeMo, {"decay": 1.0}, "decay=1.0"),
        (DeMo, {"k": 0}, "k=0"),
        (DeMo, {"k": 5000}, "k=5000"),
        (DeMo, {"weight_decay": -1.0}, "weight_decay=-1.0"),
        (Signum, {"momentum": 1.0}, "momentum=1.0"),
        (Signum, {"lr": float("nan")}, "lr=nan"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            make(named.items(), **options)
    with pytest.raises(hp.DuplicateName, match="'large'"):
        _adam([{"params": [("large", named["large"])]}, {"params": [("large", named["odd"])]}])
    with pytest.raises(hp.Unsupported, match=r"'half' is of type torch\.float16"):
        _adam([("half", torch.nn.Parameter(torch.ones(3, dtype=torch.float16)))])
    with pytest.raises(hp.InvalidArgument, match="'none' has no elements"):
        _adam([("none", torch.nn.Parameter(torch.ones(0)))])
    with pytest.raises(hp.InvalidArgument, match="OneBitAdam exchanges values with all ranks itself"):
        hp.DistributedOptimizer(_adam(named.items()), named.items())


def test_arguments_that_make_no_optimizer() -> None:
    run(_refusals, 1)


def _unused(make: Any) -> None:
    hp.init()
    named = problem.parameters()
    optimizer = make(named.items())
    before = problem.values_of(named)

    def step(number: int, without: str) -> None:
        for name, each in named.items():
            each.grad = None if name == without else torch.ones_like(each)
        optimizer.step()

    step(1, "odd")
    after = problem.values_of(named)
    # The step applies weight decay only, and OneBitLamb has none here.
    assert (after["odd"] == before["odd"] * (1.0 if make is _lamb else 1 - 1e-3 * 0.01)).all()
    state = str(optimizer.state_dict()["state"])
    for _ in range(2):
        with pytest.raises(hp.InvalidArgument, match="'odd' has had no gradient in the first 2 steps"):
            step(2, "odd")
        assert all((each == after[name]).all() for name, each in problem.values_of(named).items())
        assert optimizer.steps == 1
        assert str(optimizer.state_dict()["state"]) == state
    step(2, "")
    step(3, "odd")  # from this step on "odd" may have no gradient
    assert optimizer.steps == 3
    named["odd"].grad = torch.ones(7, 193).to_sparse()
    with pytest.raises(hp.Unsupported, match="'odd' is sparse"):
        optimizer.step()


@pytest.mark.parametrize("make", [_adam, _lamb])
def test_a_variance_that_is_zero_is_not_frozen(make: Any) -> None:
    run(_unused, 2, make)


def _always_zero() -> None:
    """A parameter that is zero in all steps before the freeze has no coefficient, which a later freeze gives it."""
    hp.init()
    for freeze in (1, 2):
        named = {"zero": torch.nn.Parameter(torch.zeros(3)), "other": torch.nn.Parameter(torch.ones(3))}
        optimizer = OneBitLamb(named.items(), freeze_step=freeze)
        for number in range(1, 4):
            for each in named.values():
                each.grad = torch.ones(3)
            if freeze > 1:
                optimizer.step()
                assert optimizer.steps == number
                continue
            with pytest.raises(hp.InvalidArgument, match="'zero' was zero in all of the first 1 steps"):
                optimizer.step()
            assert optimizer.steps == 0
            assert torch.equal(named["other"], torch.ones(3))
            assert optimizer.coefficients() == {}


def test_a_coefficient_that_is_zero_is_not_frozen() -> None:
    run(_always_zero, 2)


def _never_used() -> None:
    hp.init()
    named = problem.parameters()
    optimizer = ZeroOneAdam(named.items(), var_freeze_step=2)
    for name, each in named.items():
        each.grad = None if name == "odd" else torch.ones_like(each)
    optimizer.step()
    before = problem.values_of(named)
    with pytest.raises(hp.InvalidArgument, match="'odd' has had no gradient in the exact steps of the first 2"):
        optimizer.step()
    assert all((each == before[name]).all() for name, each in problem.values_of(named).items())
    assert optimizer.steps == 1


def test_zero_one_adam_freezes_no_variance_that_is_zero() -> None:
    run(_never_used, 2)


def _differing() -> None:
    hp.init()
    named = problem.parameters()
    for make, options, message in [
        (_adam, {"freeze_step": 2 + hp.rank()}, "freeze_step"),
        (_adam, {"lr": 0.1 + hp.rank()}, "options"),
        (_adam, {"codec": "onebit" if hp.rank() else "int8"}, "travel"),
        (_lamb, {"freeze_step": 2 + hp.rank()}, "freeze_step"),
        (_lamb, {"max_coeff": 2.0 + hp.rank()}, "min_coeff, max_coeff"),
        (_lamb, {"factor_max": 2.0 + hp.rank()}, "factor_min, factor_max"),
        (_sgd, {"ratio": 0.1 + 0.1 * hp.rank()}, "ratio"),
        (ZeroOneAdam, {"local_step_scaler": 2 + hp.rank()}, "steps"),
        (DeMo, {"k": 2 + hp.rank()}, "k, quantize_1bit"),
    ]:
        with pytest.raises(hp.Mismatch, match=message):
            make(named.items(), **options)
    with pytest.raises(hp.Mismatch):
        (_adam if hp.rank() else _sgd)(named.items())


def test_ranks_that_differ_all_learn_it() -> None:
    run(_differing, 2)


_MAKERS: dict[str, Any] = {
    "onebit": _adam,
    "lamb": _lamb,
    "zero-one": lambda named: ZeroOneAdam(named, var_freeze_step=3),
    "dgc": lambda named: _sgd(named, ratio=0.01),
    "signum": Signum,
    "demo": DeMo,
}


def _not_finite(kind: str) -> bool:
    """Whether all ranks have the same bits, with a NaN, after rank 1 alone had a NaN in its gradients."""
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS[kind](named.items())
    for number in range(1, 5):
        problem.step(optimizer, named, hp.rank(), number)
    for each in named.values():
        each.grad = torch.ones_like(each)
        if hp.rank() == 1:
            each.grad.view(-1)[0] = float("nan")
    optimizer.step()
    digest = b"".join(each.tobytes() for each in problem.values_of(named).values())
    assert len(set(hp.allgather_object(digest))) == 1
    return all(bool(each.isnan().any()) for each in named.values())


@pytest.mark.parametrize("kind", _MAKERS)
def test_a_nan_reaches_every_rank(kind: str) -> None:
    assert run(_not_finite, 2, kind) == [True, True]


def _until_a_rank_leaves(kind: str) -> bool:
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS[kind](named.items())
    for number in range(1, 5):
        problem.step(optimizer, named, hp.rank(), number)
    if hp.rank() == 1:
        hp.shutdown()
        return True
    before = problem.values_of(named)
    with pytest.raises(hp.PeerLost, match="1"):
        problem.step(optimizer, named, 0, 5)
    return optimizer.steps == 4 and all((each == before[name]).all() for name, each in problem.values_of(named).items())


@pytest.mark.parametrize("kind", _MAKERS)
def test_a_lost_rank_is_an_error_and_changes_nothing(kind: str) -> None:
    assert all(run(_until_a_rank_leaves, 2, kind))
