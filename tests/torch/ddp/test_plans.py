# SPDX-License-Identifier: Apache-2.0
"""compress(plan=...): the hook sends the bytes that the plan decides, and refuses plans for other models and other
carriers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.secopa.plan.plan import Plan
from hipress.torch import ddp
from tests.torch.ddp import training
from tests.torch.ranks import run
from tests.torch.test_plans import WAYS, plan_for

pytestmark = pytest.mark.slow

_STEPS = 4


def _sent(net: torch.nn.Module, model: torch.nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> tuple[Any, ...]:
    """The parameters after some steps, and the bytes that the engine has sent in these steps."""
    before = hp.counters()
    for step in range(_STEPS):
        inputs, wanted = training.batch(rank, step)
        optimizer.zero_grad()
        (model(inputs) - wanted).square().mean().backward()
        optimizer.step()
    after = hp.counters()
    return training.fingerprint(net), *(after[name] - before[name] for name in ("bytes_sent", "messages_sent"))


def _net() -> training.Net:
    torch.manual_seed(0)
    return training.Net()


@training.in_process_group
def _by_plan(rank: int, path: str) -> tuple[tuple[Any, ...], ...]:
    hp.init()
    net = _net()
    model = DistributedDataParallel(net, bucket_cap_mb=0.3)
    ddp.compress(model, carrier="hipress", plan=path)
    hooked = _sent(net, model, torch.optim.SGD(model.parameters(), lr=0.01), rank)
    hp.shutdown()  # a new engine forgets the residuals of these parameters
    hp.init()
    net = _net()
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.01), net.named_parameters(), plan=path)
    return hooked, _sent(net, net, optimizer, rank)


def test_the_hook_sends_what_the_distributed_optimizer_sends_under_the_same_plan(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    plan_for(training.Net().named_parameters(), WAYS, world=2).write(path)
    results = run(_by_plan, 2, str(tmp_path), path)
    assert len({hooked[0] for hooked, _ in results}) == 1
    for hooked, distributed in results:
        assert hooked == distributed


@training.in_process_group
def _refused(_rank: int) -> None:
    hp.init()
    model = DistributedDataParallel(training.Net())
    plan = plan_for(training.Net().named_parameters(), WAYS, world=2)
    wrong: list[tuple[type[Exception], str, Any, str]] = [
        (hp.Unsupported, "a plan is for HiPress' engine", plan, "group"),
        (hp.Unsupported, "makes no plans", "auto", "hipress"),
        (hp.InvalidArgument, "the plan is for 3 ranks", plan.model_copy(update={"world": 3}), "hipress"),
        (hp.InvalidArgument, "says nothing about", _without_one(plan), "hipress"),
        (hp.InvalidArgument, "cannot read nowhere", "nowhere.json", "hipress"),
    ]
    for error, text, given, carrier in wrong:
        with pytest.raises(error, match=text):
            ddp.compress(model, carrier=carrier, plan=given)  # type: ignore[arg-type]


def _without_one(plan: Plan) -> Plan:
    return plan.model_copy(update={"decisions": plan.decisions[1:]})


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    run(_refused, 2, str(tmp_path))
