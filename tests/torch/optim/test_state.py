# SPDX-License-Identifier: Apache-2.0
"""A saved and loaded optimizer continues as without the pause; a state that does not fit changes nothing."""

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
from hipress.torch.optim import DGC_RATIOS, DGCSGD, DeMo, OneBitAdam, OneBitLamb, Signum, Warmup, ZeroOneAdam
from tests.tiers import thorough
from tests.torch.optim import problem
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_MAKERS: dict[str, Any] = {
    "signum": lambda named, **more: Signum(named, lr=0.01, **more),
    "onebit": lambda named, **more: OneBitAdam(named, lr=0.01, freeze_step=3, **more),
    "lamb": lambda named, **more: OneBitLamb(named, lr=0.01, weight_decay=0.1, freeze_step=3, **more),
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
    loaded: dict[str, Any] = torch.load(file)  # torch.load() does not trust the file
    return loaded


def _resumed(folder: str, kind: str, saved_after: int) -> bool:
    """Whether 9 steps, and 9 steps with a pause, end with the same bits."""
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
        thorough("onebit", "engine", 2),
        thorough("lamb", "group", 6),
        ("lamb", "engine", 3),
        thorough("zero-one", "group", 3),
        ("zero-one", "group", 7),
        ("demo", "engine", 4),
        thorough("dgc", "engine", 4),
        ("dgc", "group", 7),
        ("signum", "engine", 5),
    ],
)
def test_a_pause_changes_no_bit(kind: str, carrier: str, saved_after: int, tmp_path: Path) -> None:
    assert run(_resumed, 2, str(tmp_path) if carrier == "group" else "", kind, saved_after) == [True, True]


def _of_other_ranks() -> None:
    hp.init()
    for make in _MAKERS.values():
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
        assert [f"rank {hp.rank()} of 4" in each for each in warnings] == [True]
        assert optimizer.steps == 5
        problem.step(optimizer, named, hp.rank(), 6)
        digest = b"".join(each.tobytes() for each in problem.values_of(named).values())
        assert len(set(hp.allgather_object(digest))) == 1


def test_another_ranks_state_goes_on_without_its_residuals() -> None:
    run(_of_other_ranks, 2)


def _gone_on(kind: str, folder: str, first: int) -> tuple[problem.Values, dict[str, torch.Tensor]]:
    """The parameters after 100 steps, and the final residuals. With `first` 1 all steps run, and step 50 is saved.
    Otherwise the state of step 50 is loaded, and the steps from `first` on run."""
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS[kind](named.items(), min_compress_bytes=0)
    file = Path(folder, f"rank{hp.rank()}")
    if first > 1:
        state, values = torch.load(file)
        with torch.no_grad():
            for name, each in named.items():
                each.copy_(values[name])
        optimizer.load_state_dict(state)
    for step in range(first, 101):
        problem.step(optimizer, named, hp.rank(), step)
        if step == 50:
            torch.save([optimizer.state_dict(), dict(named)], file)
    return problem.values_of(named), hp.codec_states(optimizer, exact=True)


@pytest.mark.parametrize("kind", ["onebit", "lamb", "zero-one"])
def test_fifty_steps_more_equal_a_hundred(kind: str, tmp_path: Path) -> None:
    # Each run has new engines, as after a restart.
    ranks = [run(_gone_on, 2, kind, str(tmp_path), first) for first in (1, 51)]
    for (values, states), (restored, kept) in zip(*ranks, strict=True):
        assert all(np.array_equal(each, restored[name]) for name, each in values.items())
        assert list(states) == list(kept)
        assert all(torch.equal(each, kept[key]) for key, each in states.items())
        assert all(states[key].any() for key in states if key.endswith(".large/residual"))
        assert any(key.endswith(".large/residual") for key in states)


def _mean() -> dict[str, Any]:
    """The mean of all ranks' residuals after 6 steps, before it is loaded and after; and this rank's own residuals."""
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS["zero-one"](named.items(), min_compress_bytes=0)
    for step in range(1, 7):
        problem.step(optimizer, named, hp.rank(), step)
    mean, own = hp.codec_states(optimizer), hp.codec_states(optimizer, exact=True)
    optimizer.load_state_dict({**optimizer.state_dict(), "hipress": {**optimizer.state_dict()["hipress"], "world": 4}})
    forgotten = hp.codec_states(optimizer)
    assert not any(each.any() for key, each in forgotten.items() if "/" in key)
    for bad, message in (({**mean, "strange/residual": torch.ones(3)}, "strange"), ([], "list of codecs' states")):
        with pytest.raises(hp.InvalidArgument, match=message):
            hp.load_codec_states(optimizer, bad)
    hp.load_codec_states(optimizer, mean)
    return {"saved": mean, "again": hp.codec_states(optimizer), "own": own}


def test_the_mean_of_residuals_goes_on_in_every_rank() -> None:
    ranks = run(_mean, 2)
    keys = [key for key in ranks[0]["saved"] if key.endswith("/residual")]
    # There are residuals of the averages of momentum, and of the averages of gradients.
    assert {key.partition(".")[0] for key in keys} == {"zerooneadam", "zerooneadam_gradients"}
    for each in ranks:
        for key in keys:
            assert torch.equal(each["saved"][key], ranks[0]["saved"][key])
            torch.testing.assert_close(each["again"][key], each["saved"][key])
    assert any(ranks[0]["saved"][key].any() for key in keys)


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


def _refused_by_lamb() -> None:
    hp.init()
    named = problem.parameters()
    optimizer = _MAKERS["lamb"](named.items())
    for step in range(1, 6):
        problem.step(optimizer, named, 0, step)
    good = optimizer.state_dict()
    before = str(good)
    for state, message in [
        ({key: each for key, each in good.items() if key != "hipress"}, r"no state_dict\(\) of OneBitLamb"),
        ({**good, "hipress": {**good["hipress"], "optimizer": "OneBitAdam"}}, "of OneBitAdam, not of OneBitLamb"),
        ({**good, "hipress": {**good["hipress"], "freeze_step": 4}}, "freeze_step 4"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            optimizer.load_state_dict(state)
        assert str(optimizer.state_dict()) == before


def test_onebit_lamb_takes_its_own_states_only() -> None:
    run(_refused_by_lamb, 1)


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
