# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(plan=...) takes plans from files and changes plans between steps, with groups, frozen parameters
and sparse gradients."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.secopa.online.automatic import AutomaticOptions
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.model_gradients import gradients_of_tensors
from tests.torch.models import fingerprint, loss, mlp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: A parameter that takes these ways in turn changes its topology, its codec, its partitions and its group.
WAYS: list[dict[str, Any]] = [
    {"codec": "onebit", "topology": "ps", "partitions": 1},
    {"codec": "onebit", "topology": "ring", "partitions": 3},
    {"codec": "graddrop(ratio=0.1)", "topology": "allgather", "partitions": 2},
    {"codec": "onebit", "topology": "ps", "partitions": 5, "group": "g"},
    {"codec": "none", "topology": "ring", "partitions": 2},
    {"codec": "tbq", "topology": "hierarchical", "partitions": 1},
    {"codec": "int8_shared", "topology": "ring", "partitions": 2},
    {"codec": "powersgd(rank=2)", "topology": "ps", "partitions": 1},
]


def plan_for(named: Any, ways: list[dict[str, Any]], world: int) -> Plan:
    """A plan that gives the gradients `ways` in turn."""
    gradients = gradients_of_tensors("", named).gradients
    decisions = (
        Decision(name=gradient.name, elements=gradient.elements, dtype=gradient.dtype, **way)
        for gradient, way in zip(gradients, itertools.cycle(ways), strict=False)
    )
    return Plan(made_by="a test", world=world, topology="ps", decisions=tuple(decisions))


def _optimizer(model: nn.Module, **options: Any) -> Any:
    return hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), **options)


def _from_a_file(path: str) -> list[str]:
    hp.init()
    model = mlp()
    optimizer = _optimizer(model, plan=path)
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        seen.append(fingerprint(model))
    with pytest.raises(hp.InvalidArgument, match="cannot read nowhere"):
        optimizer.set_plan("nowhere.json")
    with pytest.raises(hp.InvalidArgument, match=r"plan=3: give .* a file"):
        optimizer.set_plan(3)
    return seen


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan_for(mlp().named_parameters(), WAYS, 2).write(path)
    first, second = run(_from_a_file, 2, str(path))
    assert first == second


def _lacking() -> list[float]:
    """After each change of plan: the largest difference between the gradients' averages and the results, summed over
    all steps. The last plan keeps no residual."""
    hp.init()
    shapes = {"a": (70, 100), "b": (33,), "c": (5000,), "d": (64, 128), "e": (9,), "f": (2000,)}
    named = {name: nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()}
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(named.values(), lr=0.0), named.items())
    raw = [{"codec": "none", "topology": "ps", "partitions": 1}]
    plans = [WAYS, WAYS[1:] + WAYS[:1], WAYS[3:4], WAYS[2:] + WAYS[:2], WAYS[6:] + WAYS[:6], WAYS[7:] + WAYS[:7], raw]
    given = {name: torch.zeros(shape) for name, shape in shapes.items()}
    arrived = {name: torch.zeros(shape) for name, shape in shapes.items()}
    lacking = []
    for turn, ways in enumerate(plans):
        optimizer.set_plan(plan_for(named.items(), ways, hp.size()))
        for step in range(2):
            optimizer.zero_grad()
            total = torch.zeros(())
            for rank, (name, parameter) in itertools.product(range(hp.size()), named.items()):
                generator = torch.Generator().manual_seed(100 * turn + 10 * step + rank)
                values = torch.randn(parameter.shape, generator=generator)
                given[name] += values / hp.size()
                if rank == hp.rank():
                    total = total + (parameter * values).sum()
            total.backward()
            optimizer.step()
            for name, parameter in named.items():
                assert parameter.grad is not None
                arrived[name] += parameter.grad
        lacking.append(max(float((given[name] - arrived[name]).abs().max()) for name in named))
    return lacking


def test_no_residual_is_lost_between_plans() -> None:
    for *before, last in run(_lacking, 3):
        assert last < 1e-4
        assert min(before) > 0.1


def _frozen_and_sparse() -> None:
    hp.init()
    used, frozen, sparse = nn.Linear(8, 8), nn.Linear(8, 8), nn.Embedding(10, 8, sparse=True)
    frozen.requires_grad_(False)
    model = nn.ModuleDict({"used": used, "frozen": frozen, "sparse": sparse})
    together = [{"codec": "none", "topology": "ps", "partitions": 1, "group": "g"}]
    apart = [*together * 4, {**together[0], "group": None}]  # the last gradient belongs to the embedding
    optimizer = _optimizer(model, plan=plan_for(model.named_parameters(), apart, hp.size()))
    inputs = torch.ones(2, 8) * (hp.rank() + 1)
    (used(inputs).sum() + sparse(torch.tensor([hp.rank()])).sum()).backward()
    assert used.weight.grad is not None
    assert torch.allclose(used.weight.grad, torch.full((8, 8), 3.0))
    assert all(parameter.grad is None for parameter in frozen.parameters())
    optimizer.step()
    optimizer.zero_grad()
    optimizer.set_plan(plan_for(model.named_parameters(), together, hp.size()))
    with pytest.raises(hp.InvalidArgument, match=r"'sparse.weight' is sparse, .* has it in group 'g'"):
        sparse(torch.tensor([hp.rank()])).sum().backward()


def test_groups_wait_for_frozen_parameters_and_refuse_sparse_ones() -> None:
    run(_frozen_and_sparse, 2)


def _automatic_with_linked_tensors() -> tuple[list[str], list[str], list[str]]:
    """The measured codecs with linked tensors; the codecs of a plan for slow links; the fingerprints of its steps."""
    hp.init()
    model = mlp(hidden=160)
    options = AutomaticOptions(codecs=("int8_shared",), codecs_for=(("2.*", ("powersgd",)),), interval=2, profile_s=0.5)
    optimizer = _optimizer(model, plan=options)
    planning = optimizer._hipress.planning

    def steps(first: int) -> list[str]:
        for step in range(first, first + 5):
            optimizer.zero_grad()
            loss(model, hp.rank(), step).backward()
            optimizer.step()
        return fingerprint(model)

    steps(0)
    profile = planning.profile
    slow = profile.link.model_copy(update={"bandwidth_bytes_per_s": 1e5, "duplex_bytes_per_s": None})
    apart = tuple(place.model_copy(update={"host": f"host {rank}"}) for rank, place in enumerate(profile.ranks))
    plan = planning._made(profile.model_copy(update={"link": slow, "ranks": apart}))
    planning._change(plan)
    return sorted(profile.linked), [one.codec for one in plan.decisions], [steps(10), steps(20)]


def test_auto_plans_have_codecs_of_linked_tensors() -> None:
    first, second = run(_automatic_with_linked_tensors, 2)
    assert first == second
    linked, codecs, seen = first
    assert linked == ["int8_shared", "powersgd"]
    assert {"int8_shared", "powersgd", "none"} == set(codecs)
    assert seen[0] != seen[1]


def _automatic(steps: int) -> tuple[list[str], list[int], int]:
    """The fingerprint after each step; the steps after which the plan changed; the number of the last plan's
    decisions."""
    hp.init()
    model = mlp()
    options = AutomaticOptions(codecs=("onebit",), interval=4, profile_s=1.0, links_s=0.5)
    optimizer = _optimizer(model, plan=options)
    planning = optimizer._hipress.planning
    seen, changes = [], []
    for step in range(steps):
        before = planning.plan
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
        if planning.plan is not before:
            changes.append(step)
        seen.append(fingerprint(model))
    profile = planning.profile
    assert profile.gradients.backward_s > 0
    assert all(gradient.release_s is not None for gradient in profile.gradients.gradients)
    return seen, changes, len(planning.plan.decisions) if planning.plan else 0


def test_auto_plans_after_some_steps_and_replicas_stay_identical() -> None:
    by_rank = run(_automatic, 2, 20)
    assert by_rank[0] == by_rank[1]
    seen, changes, _ = by_rank[0]
    assert len(set(seen)) == 20
    assert changes[0] == 5
