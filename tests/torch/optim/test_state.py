# SPDX-License-Identifier: Apache-2.0
"""Saved and loaded, an optimizer goes on as if nothing had happened; a state that does not fit changes nothing."""

from __future__ import annotations

import copy
import io
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress.torch as hp
from hipress.torch.optim import DGC_RATIOS, DGCSGD, DeMo, OneBitAdam, Signum, Warmup, ZeroOneAdam
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_MAKERS: dict[str, Any] = {
    "signum": lambda named, **more: Signum(named, lr=0.01, **more),
    "onebit": lambda named, **more: OneBitAdam(named, lr=0.01, freeze_step=3, **more),
    "demo": lambda named, **more: DeMo(named, lr=0.01, **more),
    "zero-one": lambda named, **more: ZeroOneAdam(
        named, lr=0.01, weight_decay=0.1, var_freeze_step=4, var_update_scaler=2, local_step_scaler=2, **more
    ),
    "dgc": lambda named, **more: DGCSGD(
        named, lr=0.02, weight_decay=0.1, warmup=Warmup(5, ratios=DGC_RATIOS), clip_norm=40.0, **more
    ),
}


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file)  # which trusts no file
    return loaded


def _resumed(folder: str, kind: str, saved_after: int) -> bool:
    """Whether 9 steps, and as many with a pause, end with the same bits."""
    with problem.carried(folder) as (rank, carrier):
        through, named = problem.parameters(), problem.parameters()
        whole, before = _MAKERS[kind](through.items(), **carrier), _MAKERS[kind](named.items(), **carrier)
        for step in range(1, 10):
            problem.step(whole, through, rank, step)
            if step <= saved_after:
                problem.step(before, named, rank, step)
        after = _MAKERS[kind](named.items(), **carrier)
        after.load_state_dict(_through_a_file(before.state_dict()))
        assert after.steps == saved_after
        for step in range(saved_after + 1, 10):
            problem.step(after, named, rank, step)
        same = all(torch.equal(each, named[name]) for name, each in through.items())
        del whole, before, after
        return same


@pytest.mark.parametrize(
    ("kind", "carrier", "saved_after"),
    [
        ("onebit", "group", 6),
        ("onebit", "engine", 2),
        ("zero-one", "group", 3),
        ("zero-one", "group", 7),
        ("demo", "engine", 4),
        ("dgc", "engine", 4),
        ("dgc", "group", 7),
        ("signum", "engine", 5),
    ],
)
def test_a_pause_changes_no_bit(kind: str, carrier: str, saved_after: int, tmp_path: Path) -> None:
    assert run(_resumed, 2, str(tmp_path) if carrier == "group" else "", kind, saved_after) == [True, True]


def _of_other_ranks() -> None:
    hp.init()
    for kind, make in _MAKERS.items():
        named = problem.parameters()
        optimizer = make(named.items())
        for step in range(1, 6):
            problem.step(optimizer, named, hp.rank(), step)
        state = optimizer.state_dict()
        state["hipress"]["world"] = 4
        warnings: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record, to=warnings: to.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("hipress").addHandler(handler)
        optimizer.load_state_dict(state)
        logging.getLogger("hipress").removeHandler(handler)
        # The engine's states are in no state_dict(): of these two nothing is left out.
        assert [f"rank {hp.rank()} of 4" in each for each in warnings] == (
            [] if kind in ("onebit", "zero-one") else [True]
        )
        assert optimizer.steps == 5
        problem.step(optimizer, named, hp.rank(), 6)
        digest = b"".join(each.tobytes() for each in problem.values_of(named).values())
        assert len(set(hp.allgather_object(digest))) == 1


def test_another_ranks_state_goes_on_without_its_residuals() -> None:
    run(_of_other_ranks, 2)


def _refused() -> None:
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS["onebit"](named.items())
    for step in range(1, 6):
        problem.step(optimizer, named, 0, step)
    good = optimizer.state_dict()
    before = copy.deepcopy(good["state"])

    def changed(**own: Any) -> dict[str, Any]:
        return {**good, "hipress": {**good["hipress"], **own}}

    def of_element(key: str, value: Any) -> dict[str, Any]:
        return {**good, "state": {**good["state"], 1: {**good["state"][1], key: value}}}

    plain = torch.optim.AdamW(problem.parameters().values())
    for each in plain.param_groups[0]["params"]:
        each.grad = torch.ones_like(each)
    for _ in range(3):
        plain.step()
    for state, message in [
        (changed(optimizer="DGCSGD"), "of DGCSGD, not of OneBitAdam"),
        (changed(names=["large", "even", "vector", "small", "one"]), "'even' in place of 'odd'"),
        ({**good, "hipress": {}}, r"lacks 'hipress\.codecs'"),
        (changed(freeze_step=4), "freeze_step 4"),
        (of_element("exp_avg", torch.zeros(3, 3)), r"'exp_avg' of 'odd' has shape \[3, 3\]"),
        (of_element("step", torch.tensor(2.0)), "2 to 5 steps"),
        (plain.state_dict(), "3 steps and is of AdamW"),
        ({**good, "state": {0: good["state"][0]}}, "1 parameters, the optimizer has 5"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            optimizer.load_state_dict(state)
    for number, values in optimizer.state_dict()["state"].items():
        assert all(torch.equal(each, before[number][key]) for key, each in values.items())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(hp.Unsupported):
            copied(optimizer)
    with pytest.raises(hp.Unsupported, match="add_param_group"):
        optimizer.add_param_group({"params": [("more", torch.nn.Parameter(torch.ones(2)))]})
    assert len(optimizer.param_groups) == 1
    assert np.isfinite(problem.values_of(named)["odd"]).all()


def test_states_that_do_not_fit_are_refused() -> None:
    run(_refused, 1)


def _between_synchronised_steps() -> None:
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS["zero-one"](named.items())
    for step in range(1, 8):
        problem.step(optimizer, named, 0, step)
    assert not optimizer.synchronized
    good = optimizer.state_dict()
    before = problem.values_of(named)
    for own, message in [
        ({"world": 2}, "saved between two synchronised steps"),
        ({"var_freeze_step": 5}, "var_freeze_step=5, and here it is 4"),
        ({"local_step_clipper": 4}, "local_step_clipper=4"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            optimizer.load_state_dict({**good, "hipress": {**good["hipress"], **own}})
    with pytest.raises(hp.InvalidArgument, match=r"no state_dict\(\) of ZeroOneAdam"):
        optimizer.load_state_dict({key: each for key, each in good.items() if key != "hipress"})
    assert str(optimizer.state_dict()) == str(good)
    assert all((each == before[name]).all() for name, each in problem.values_of(named).items())
    problem.step(optimizer, named, 0, 8)
    assert optimizer.synchronized


def test_a_state_of_zero_one_adam_between_synchronised_steps_is_its_ranks_own() -> None:
    run(_between_synchronised_steps, 1)
