# SPDX-License-Identifier: Apache-2.0
"""A restart changes no result, and a state that does not fit changes nothing."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

_OPTIONS = {"sync_every": 6, "fragments": 3, "overlap_steps": 1, "mix": 0.5}


def _made(hidden: int = 24, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer, hp.DiLoCo]:
    model = models.mlp(0, hidden)
    optimizer = replay.inner_optimizer(model)
    return model, optimizer, hp.DiLoCo(model, optimizer, **{**_OPTIONS, **options})


def _fingerprints(model: nn.Module, diloco: hp.DiLoCo) -> tuple[str, str]:
    own = models.fingerprint(model)
    with diloco.outer_parameters():
        return own, models.fingerprint(model)


def _interrupted(stop: int) -> list[tuple[str, str]]:
    """Fingerprints after 20 steps without a pause, with a save after `stop`, and from the restored state."""
    hp.init()
    results = []
    for saves in (False, True):
        model, optimizer, diloco = _made()
        for step in range(20):
            if saves and step == stop:
                file = io.BytesIO()
                torch.save([model.state_dict(), optimizer.state_dict(), diloco.state_dict()], file)
            replay.inner_step(model, optimizer, hp.rank(), step)
        results.append(_fingerprints(model, diloco))
        diloco.detach()
    file.seek(0)
    parameters, moments, state = torch.load(file, weights_only=True)
    before = copy.deepcopy(state)
    model, optimizer, diloco = _made()
    replay.inner_step(model, optimizer, hp.rank(), 50)  # loading forgets this step
    replay.inner_step(model, optimizer, hp.rank(), 51)  # this step begins an exchange
    diloco.load_state_dict(state)
    model.load_state_dict(parameters)
    optimizer.load_state_dict(moments)
    for step in range(stop, 20):
        replay.inner_step(model, optimizer, hp.rank(), step)
    assert str(state) == str(before)  # the steps have not changed the caller's state
    return [*results, _fingerprints(model, diloco)]


@pytest.mark.parametrize("stop", [9, 10], ids=["between exchanges", "during an exchange"])
def test_a_restart_changes_nothing(stop: int) -> None:
    ranks = run(_interrupted, 2, stop)
    for straight, saved, restored in ranks:
        assert saved == straight
        assert restored == straight
    assert ranks[0][0][0] != ranks[1][0][0]  # each rank has its own parameters
    assert ranks[0][0][1] == ranks[1][0][1]


def _with_other_format(state: dict[str, Any]) -> None:
    state["format"] = 99


def _without_a_parameter(state: dict[str, Any]) -> None:
    del state["parameters"]["2.bias"]


def _with_another_parameter(state: dict[str, Any]) -> None:
    state["parameters"]["6.bias"] = torch.zeros(3)


def _with_another_type(state: dict[str, Any]) -> None:
    state["parameters"]["0.bias"] = state["parameters"]["0.bias"].double()


def _with_momentum_of_another_shape(state: dict[str, Any]) -> None:
    state["outer_optimizer"]["state"]["state"][0]["momentum_buffer"] = torch.zeros(3)


def _with_a_fragment_too_many(state: dict[str, Any]) -> None:
    state["exchange"]["fragment"] = 3


def _without_averages(state: dict[str, Any]) -> None:
    state["exchange"]["averages"].clear()


def _empty(state: dict[str, Any]) -> None:
    state.clear()


_ALTERATIONS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_with_other_format, "format 99"),
    (_without_a_parameter, "lack '2.bias'"),
    (_with_another_parameter, "'6.bias'"),
    (_with_another_type, "'0.bias' has dtype"),
    (_with_momentum_of_another_shape, "momentum_buffer"),
    (_with_a_fragment_too_many, "fragment 3"),
    (_without_averages, "averages lack"),
    (_empty, "no state of DiLoCo"),
]


def _refusals() -> None:
    hp.init()
    model, optimizer, diloco = _made()
    for step in range(8):
        replay.inner_step(model, optimizer, hp.rank(), step)
    good, before = diloco.state_dict(), _fingerprints(model, diloco)
    for alter, message in _ALTERATIONS:
        bad = copy.deepcopy(good)
        alter(bad)
        with pytest.raises(hp.InvalidArgument, match=message):
            diloco.load_state_dict(bad)
    for options, message in [
        ({"hidden": 25}, r"'0.weight' has shape"),
        ({"sync_every": 9}, "sync_every"),
        ({"mix": 0.0}, "mix"),
        ({"overlap_steps": 0}, "overlap_steps"),
        ({"fragments": [["0"], ["4"], ["2"]]}, "fragments"),
    ]:
        other = _made(**options)[2]
        with pytest.raises(hp.InvalidArgument, match=message):
            other.load_state_dict(good)
    parameters = list(model.parameters())
    adam = hp.DiLoCo(model, torch.optim.SGD(parameters, 0.1), torch.optim.Adam(parameters), **_OPTIONS)
    with pytest.raises(hp.InvalidArgument, match="outer optimizer is SGD, and here it is Adam"):
        adam.load_state_dict(good)
    adam.detach()
    altered = copy.deepcopy(good)
    altered["parameters"]["0.bias"] += hp.rank()
    with pytest.raises(hp.Mismatch, match="the state's parameters"):
        diloco.load_state_dict(altered)
    if hp.rank() == 0:
        with pytest.raises(hp.InvalidArgument):
            diloco.load_state_dict({})
    else:
        with pytest.raises(hp.Mismatch, match="rank 0 refused"):
            diloco.load_state_dict(good)
    assert str(diloco.state_dict()) == str(good)
    if hp.rank() == 0:  # DiLoCo() of `adam` has given rank 0's parameters to rank 1
        assert _fingerprints(model, diloco) == before


def test_a_state_that_does_not_belong_here_changes_nothing() -> None:
    run(_refusals, 2)
