# SPDX-License-Identifier: Apache-2.0
"""compress(plan=...): the hook sends what the plan decides over both carriers, and refuses plans for other models."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.secopa.plan.plan import Plan
from hipress.torch import ddp
from hipress.torch.ddp.options import Carrier
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


#: What carriers do alike: a group's exact sums, and levels and factors that it adds, have no partitions.
_ALIKE: list[dict[str, Any]] = [
    {"codec": "onebit", "topology": "ps", "partitions": 1},
    {"codec": "onebit", "topology": "ring", "partitions": 3},
    {"codec": "graddrop(ratio=0.1)", "topology": "allgather", "partitions": 2},
    {"codec": "tbq", "topology": "butterfly", "partitions": 4},
]


@training.in_process_group
def _by_both_carriers(rank: int, path: str) -> list[str]:
    hp.init()
    fingerprints = []
    for carrier in get_args(Carrier):
        net = _net()
        model = DistributedDataParallel(net, bucket_cap_mb=0.3)
        state = ddp.compress(model, carrier=carrier, plan=path)
        fingerprints.append(_sent(net, model, torch.optim.SGD(model.parameters(), lr=0.01), rank)[0])
        assert set(state.exact_tensors) <= {"last.bias"}  # onebit would not shrink it
    return fingerprints


def test_both_carriers_train_alike_under_the_same_plan(tmp_path: Path) -> None:
    path = str(tmp_path / "plan.json")
    plan_for(training.Net().named_parameters(), _ALIKE, world=2).write(path)
    results = run(_by_both_carriers, 2, str(tmp_path), path)
    assert len({each for fingerprints in results for each in fingerprints}) == 1


@training.in_process_group
def _refused(_rank: int) -> None:
    hp.init()
    model = DistributedDataParallel(training.Net())
    plan = plan_for(training.Net().named_parameters(), WAYS, world=2)
    wrong: list[tuple[type[Exception], str, Any]] = [
        (hp.Unsupported, "makes no plans", "auto"),
        (hp.InvalidArgument, "the plan is for 3 ranks", plan.model_copy(update={"world": 3})),
        (hp.InvalidArgument, "says nothing about", _without_one(plan)),
        (hp.InvalidArgument, "cannot read nowhere", "nowhere.json"),
    ]
    for (error, text, given), carrier in product(wrong, get_args(Carrier)):
        with pytest.raises(error, match=text):
            ddp.compress(model, carrier=carrier, plan=given)


def _without_one(plan: Plan) -> Plan:
    return plan.model_copy(update={"decisions": plan.decisions[1:]})


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    run(_refused, 2, str(tmp_path))
