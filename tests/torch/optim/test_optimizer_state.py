# SPDX-License-Identifier: Apache-2.0
"""broadcast_optimizer_state() gives all ranks the root's state bit for bit, and unpickles nothing."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.torch.models import loss, mlp
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

ROOT = 1


def bits(value: Any) -> Any:
    """A value that is equal if and only if types and bits are equal."""
    if isinstance(value, torch.Tensor):
        # A 0-dimensional tensor has no view with another element size, so the code makes it a vector.
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        # Only the values of a view with gaps travel; a channels-last tensor keeps its memory order.
        return str(value.dtype), tuple(value.shape), value.dim() == 4 and value.stride(), raw
    if isinstance(value, dict):
        return [(key, bits(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [bits(each) for each in value]
    return type(value).__name__, value.hex() if isinstance(value, float) else value


class Keeping(torch.optim.SGD):
    """An optimizer that keeps every given value in its state."""

    def __init__(self, parameters: Any, **kept: Any) -> None:
        super().__init__(parameters, lr=0.1)
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter].update(kept)


def plain_values() -> dict[str, Any]:
    """Values of every type that can be broadcast, among them floats that a decimal text would change."""
    numbers = {"third": 1 / 3, "infinite": -math.inf, "no number": math.nan, "smallest": 5e-324, "large": 2**70}
    return {
        "numbers": numbers,
        "texts": ["", "ü\0", b"\xff", None, True],
        "nested": ({1: (2, [3, (np.float32(0.1), np.int64(-7))])}, ()),
        "dtype": torch.bfloat16,
        "empty": torch.zeros(0, 3),
        "tensors": [torch.tensor(math.nan), None, torch.arange(6).reshape(2, 3).t(), torch.tensor([True, False])],
        "complex": torch.tensor([1 + 2j, complex(math.inf, -0.0)]),
    }


def in_float32(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """An optimizer with parameters in bfloat16 and a moment in float32; torch's load_state_dict() would round the
    moment."""
    for parameter in parameters:
        parameter.data = parameter.data.bfloat16()
    return Keeping(parameters, moment=torch.full((3,), 1 / 3))


def two_groups(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam([{"params": parameters, "lr": 0.1 / (1 + hp.rank())}, {"params": []}], lr=0.3)


CASES: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1 / (1 + hp.rank())),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.001),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=torch.tensor(1 / (3 + hp.rank())), amsgrad=True, capturable=False),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, history_size=3, max_iter=3, line_search_fn="strong_wolfe"),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "two groups, one empty": two_groups,
    "any plain value": lambda p: Keeping(p, **(plain_values() if hp.rank() == ROOT else {"old": 1})),
    "another dtype than the parameter's": in_float32,
}


def _refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("something was unpickled")


def _states(case: str, stepping: set[int], untouched: bool) -> tuple[Any, Any]:
    """This rank's state before and after the broadcast. `stepping`: the ranks that train before it; `untouched`: the
    root never updates one parameter."""
    hp.init()
    model = mlp(seed=hp.rank(), hidden=40)
    parameters = list(model.parameters())
    order = torch.contiguous_format if case == "LBFGS" else torch.channels_last  # LBFGS cannot use channels-last
    extra = nn.Parameter(torch.randn(2, 3, 4, 4).contiguous(memory_format=order))
    optimizer = CASES[case]([*parameters, extra])
    if hp.rank() in stepping:

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(model, hp.rank(), 0)
            if not untouched or hp.rank() != ROOT:
                value = value + (extra.float() ** 2).sum()
            value.backward()
            return value

        for _ in range(2):
            optimizer.step(closure)
    before = bits(optimizer.state_dict())
    loads, torch_load = pickle.loads, torch.load
    pickle.loads = torch.load = _refuse
    try:
        hp.broadcast_optimizer_state(optimizer, root_rank=ROOT)
    finally:
        pickle.loads, torch.load = loads, torch_load
    return before, bits(optimizer.state_dict())


@pytest.mark.parametrize("case", CASES)
def test_all_ranks_have_the_roots_bits(case: str) -> None:
    trained = {"SGD", "any plain value", "another dtype than the parameter's"}.isdisjoint({case})
    results = run(_states, 2, case, {0, 1} if trained else set(), False)
    root = results[ROOT][0]
    assert results[0][0] != root or case.startswith("another")
    assert [after for _, after in results] == [root, root]


@pytest.mark.parametrize("stepping", [{ROOT}, {0}, set(), {0, 1}])
def test_whatever_the_others_have_before(stepping: set[int]) -> None:
    """The broadcast removes states of parameters that the root has never updated, and adds states that other ranks
    lack."""
    results = run(_states, 2, "Adam", stepping, True)
    assert [after for _, after in results] == [results[ROOT][0]] * 2


def test_an_optimizer_goes_on_as_the_roots() -> None:
    assert len(set(run(_trains_on, 2))) == 1


def _trains_on() -> bytes:
    hp.init()
    model = mlp(seed=hp.rank(), hidden=40)
    optimizer = hp.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.01), model.named_parameters())
    for step in range(4):
        if step == 2:
            hp.broadcast_parameters(model.state_dict(), root_rank=ROOT)
            hp.broadcast_optimizer_state(optimizer, root_rank=ROOT)
        optimizer.zero_grad()
        loss(model, hp.rank(), step).backward()
        optimizer.step()
    return b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())


class Odd:
    """A value of a user's own type in an optimizer's state."""


def _odd() -> None:
    hp.init()
    hp.broadcast_optimizer_state(Keeping([nn.Parameter(torch.ones(3))], history=[0.0, Odd()]), root_rank=ROOT)


def test_a_state_of_another_type_is_named_on_every_rank() -> None:
    for outcome in outcomes(_odd, 2):
        assert isinstance(outcome, hp.Unsupported)
        assert "state_dict()['state'][0]['history'][1] is a tests.torch.optim.test_optimizer_state.Odd" in str(outcome)
        assert "broadcast_object(" in str(outcome)


def _groups() -> None:
    hp.init()
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(1 + hp.rank())]
    hp.broadcast_optimizer_state(torch.optim.SGD(parameters, lr=0.1), root_rank=ROOT)


def test_other_groups_are_refused() -> None:
    outcome, root = outcomes(_groups, 2)
    assert root is None
    assert isinstance(outcome, hp.InvalidArgument)
    assert "All ranks must build the same optimizer" in str(outcome)
