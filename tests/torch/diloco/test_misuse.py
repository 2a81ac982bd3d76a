# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of DiLoCo raise errors and change nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.torch.diloco.fragments import fragments_of
from hipress.torch.diloco.schedule import Schedule
from tests.torch import models
from tests.torch.diloco import replay
from tests.torch.ranks import run


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((10, 3, 0), "no multiple of the 3 fragments"),
        ((12, 3, 4), "overlap_steps=4 is not below sync_every / fragments = 4"),
        ((5, 1, 5), "overlap_steps=5"),
        ((0, 1, 0), "sync_every=0"),
        ((5, 0, 0), "fragments=0"),
        ((5, 1, -1), "overlap_steps=-1"),
        ((2.5, 1, 0), "sync_every=2.5"),
        ((True, 1, 0), "sync_every=True"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(numbers: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(hp.InvalidArgument, match=message):
        Schedule(*numbers)


def test_fragments_take_turns() -> None:
    schedule = Schedule(6, 3, 1)
    assert [schedule.begins(step) for step in range(1, 9)] == [None, 0, None, 1, None, 2, None, 0]
    assert [Schedule(2, 1, 0).begins(step) for step in range(5)] == [None, None, 0, None, 0]


_NAMES = ["embedding.weight", "blocks.0.a.weight", "blocks.0.b.weight", "blocks.1.a.weight", "blocks.2.a.weight", "g"]


def test_layers_are_dealt_out_whole_and_in_turn() -> None:
    assert fragments_of(_NAMES, 1) == [_NAMES]
    assert fragments_of(_NAMES, 2) == [
        ["embedding.weight", "blocks.1.a.weight", "g"],
        ["blocks.0.a.weight", "blocks.0.b.weight", "blocks.2.a.weight"],
    ]
    assert fragments_of(_NAMES, [["g", "blocks.1"], ["blocks.0", "embedding", "blocks.2.a.weight"]]) == [
        ["blocks.1.a.weight", "g"],
        ["embedding.weight", "blocks.0.a.weight", "blocks.0.b.weight", "blocks.2.a.weight"],
    ]


@pytest.mark.parametrize(
    ("fragments", "message"),
    [
        (6, "only 5 layers"),
        ([["blocks", "embedding"]], "'g' is in none"),
        ([["blocks", "embedding", "g"], ["blocks.1"]], r"'blocks.1.a.weight' is in fragments 0 and 1"),
        ([["blocks", "embedding", "g"], ["block"]], "names 'block'"),
        ([["blocks", "embedding", "g"], []], "no parameters"),
        (["blocks", "embedding", "g"], "give a list"),
    ],
)
def test_fragments_that_do_not_divide_the_model_are_refused(fragments: Any, message: str) -> None:
    with pytest.raises(hp.InvalidArgument, match=message):
        fragments_of(_NAMES, fragments)


def _refusals() -> None:
    with pytest.raises(hp.NotInitialized):
        hp.DiLoCo(nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1))
    hp.init()
    model, stranger = models.mlp(0, 24), nn.Linear(3, 3)
    parameters = list(model.parameters())
    inner = torch.optim.SGD(parameters, lr=0.1)
    used = torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    models.loss(model, 0, 0).backward()
    used.step()
    distributed = hp.DistributedOptimizer(torch.optim.SGD(stranger.parameters(), 0.1), stranger.named_parameters())
    exchanging = hp.optim.OneBitAdam(stranger.named_parameters(), freeze_step=1)
    foreign = torch.optim.SGD([*parameters, *stranger.parameters()], lr=0.1)
    partial = torch.optim.SGD(parameters[:-1], lr=0.1)
    before = models.fingerprint(model)
    kept = [copy.copy(each.param_groups[0]["params"]) for each in (inner, used, foreign, partial)]
    for arguments, options, message in [
        ((model, inner, foreign), {}, "the outer optimizer has 2 parameters"),
        ((model, inner, partial), {}, "no parameter '4.bias'"),
        ((model, inner, used), {}, "taken steps already"),
        ((model, inner, inner), {}, "is the inner one"),
        ((model, foreign), {}, "2 parameters that are not the model's"),
        ((model, distributed), {}, "DistributedOptimizer"),
        ((model, exchanging), {}, "OneBitAdam exchanges values with all ranks in every step"),
        ((nn.ReLU(), inner), {}, "no trainable parameters"),
        ((model, inner), {"preset": "dilocco"}, "'diloco', 'streaming', 'sparseloco', 'local_sgd'"),
        ((model, inner), {"sync_every": 10, "fragments": 3}, "no multiple"),
        ((model, inner), {"sync_every": 4, "fragments": 2, "overlap_steps": 2}, "overlap_steps=2 is not below"),
        ((model, inner), {"mix": 1.0}, "mix=1.0"),
        ((model, inner), {"mix": float("nan")}, "mix=nan"),
        ((model, inner), {"codec": "unknown"}, "unknown"),
    ]:
        with pytest.raises(hp.InvalidArgument, match=message):
            hp.DiLoCo(*arguments, **options)
    half = nn.Linear(2, 2).bfloat16()
    with pytest.raises(hp.Unsupported, match=r"'weight' is of type torch.bfloat16"):
        hp.DiLoCo(half, torch.optim.SGD(half.parameters(), 0.1))
    assert models.fingerprint(model) == before
    for each, params in zip((inner, used, foreign, partial), kept, strict=True):
        assert all(one is other for one, other in zip(each.param_groups[0]["params"], params, strict=True))
    assert not inner._optimizer_step_post_hooks


@pytest.mark.slow
def test_arguments_that_do_not_go_together_change_nothing() -> None:
    run(_refusals, 1)


def _differing() -> None:
    hp.init()
    model = models.mlp(0, 24)
    parameters = list(model.parameters())
    inner = torch.optim.SGD(parameters, lr=0.1)
    with pytest.raises(hp.Mismatch, match="sync_every"):
        hp.DiLoCo(model, inner, sync_every=4 + hp.rank())
    with pytest.raises(hp.Mismatch, match="outer optimizer"):
        hp.DiLoCo(model, inner, torch.optim.SGD(parameters, lr=0.7 + hp.rank()))
    with pytest.raises(hp.Mismatch):
        hp.DiLoCo(model, inner, codec="onebit" if hp.rank() else "fp16")
    diloco = hp.DiLoCo(model, inner, sync_every=2)
    with diloco.outer_parameters():
        with pytest.raises(hp.InvalidArgument, match="within outer_parameters"):
            inner.step()
        with pytest.raises(hp.InvalidArgument, match="within outer_parameters"), diloco.outer_parameters():
            pass
    with pytest.raises(hp.Unsupported):
        copy.deepcopy(diloco)
    diloco.detach()
    for step in range(4):
        replay.inner_step(model, inner, hp.rank(), step)
    assert diloco.state_dict()["step"] == 0


@pytest.mark.slow
def test_ranks_that_differ_all_learn_it() -> None:
    run(_differing, 2)
