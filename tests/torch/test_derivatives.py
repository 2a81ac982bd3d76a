# SPDX-License-Identifier: Apache-2.0
"""Collectives have derivatives of any order, also with one name twice, and in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress import runtime
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "allreduce": lambda x: hp.allreduce(x, op=hp.Sum, name="x"),
    "allreduce, unnamed": lambda x: hp.allreduce(x, op=hp.Sum),
    "allreduce, fp16": lambda x: hp.allreduce(x, op=hp.Sum, compression=hp.Compression.fp16),
    "grouped_allreduce": lambda x: torch.cat(hp.grouped_allreduce([x, x * x], op=hp.Sum, name="x")),
    "broadcast": lambda x: hp.broadcast(x, 1, name="x"),
    "allgather": lambda x: hp.allgather(x, name="x"),
    "alltoall": lambda x: hp.alltoall(x, splits=[1, 3], name="x")[0],
    "reducescatter": lambda x: hp.reducescatter(x, op=hp.Sum, name="x"),
    "grouped_reducescatter": lambda x: torch.cat(hp.grouped_reducescatter([x, x * x], op=hp.Average, name="x")),
}


def _sum_of_cubes(twice: bool) -> list[float]:
    """With y = sum of x over the ranks: d/dx of sum(y^3) is the sum of 3 y^2 over the ranks; the second derivative sums
    6 y times the weights."""
    hp.init()
    x = torch.tensor([1.0, 2.0], dtype=torch.float64) * (hp.rank() + 1)
    x.requires_grad_()
    y = hp.allreduce(x, op=hp.Sum, name="x")
    (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=twice)
    if not twice:
        return first.tolist()
    (second,) = torch.autograd.grad(first.sum(), x)
    return second.tolist()


def test_the_second_derivative_of_an_allreduce() -> None:
    assert run(_sum_of_cubes, 2, False) == [[2 * 3 * 9.0, 2 * 3 * 36.0]] * 2
    # Each rank's first derivative is the sum of both ranks' 3 y^2, and both depend on x through y.
    assert run(_sum_of_cubes, 2, True) == [[2 * 2 * 6 * 3.0, 2 * 2 * 6 * 6.0]] * 2


def _has_second_derivative(function: str) -> bool:
    hp.init()
    x = (torch.arange(4.0, dtype=torch.float64).reshape(4, 1) + hp.rank() + 1).requires_grad_()
    (first,) = torch.autograd.grad((FUNCTIONS[function](x) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return bool((second != 0).any())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_collective_has_a_second_derivative(function: str) -> None:
    # Only the root of a broadcast has a derivative; the other ranks take part in its computation.
    assert run(_has_second_derivative, 2, function) == ([False, True] if function == "broadcast" else [True, True])


def _one_name_twice() -> list[list[float]]:
    """The ranks differ in their graphs, so autograd runs the two derivatives in different orders."""
    hp.init()
    x = torch.ones(2, requires_grad=True)
    first = hp.allreduce(x * 1, op=hp.Sum, name="x")
    second = hp.allreduce(x * 1, op=hp.Sum, name="x")
    seen: list[list[float]] = []
    for result, weight in ((first, 1.0), (second, 10.0)):
        assert result.grad_fn is not None
        result.grad_fn.register_hook(lambda inputs, outputs, weight=weight: seen.append([weight, *inputs[0].tolist()]))
    # An allreduce of a leaf itself would make one backward wait for the other.
    order = [(first, 1.0), (second, 10.0)] if hp.rank() == 0 else [(second, 10.0), (first, 1.0)]
    threads = [threading.Thread(target=(result * weight).sum().backward) for result, weight in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(seen)


def test_derivatives_of_calls_with_one_name_do_not_meet() -> None:
    for _ in range(5):
        assert run(_one_name_twice, 2) == [[[1.0, 2.0, 2.0], [10.0, 20.0, 20.0]]] * 2


def _in_threads(named: bool) -> list[list[float]]:
    """Each thread differentiates its own call. The ranks start the threads in different orders."""
    hp.init()
    weights = [1.0, 10.0, 100.0, 1000.0]
    inputs = [torch.ones(3, requires_grad=True) for _ in weights]
    results = [hp.allreduce(x, op=hp.Sum, name=f"x{index}" if named else None) for index, x in enumerate(inputs)]
    calls: list[Any] = [
        threading.Thread(target=(result * weight).sum().backward)
        for result, weight in zip(results, weights, strict=True)
    ]
    if hp.rank() == 1:
        calls.reverse()
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    return [x.grad.tolist() for x in inputs if x.grad is not None]


@pytest.mark.parametrize("named", [True, False])
def test_derivatives_in_threads(named: bool) -> None:
    expected = [[2 * weight] * 3 for weight in (1.0, 10.0, 100.0, 1000.0)]
    for _ in range(5):
        assert run(_in_threads, 2, named) == [expected] * 2


def _differentiated_again_and_again() -> int:
    """HiPress forgets the names of derivatives that have been computed."""
    hp.init()
    x = torch.ones(3, requires_grad=True)
    sizes = []
    for step in range(40):
        (first,) = torch.autograd.grad((hp.allreduce(x, name="x") ** 3).sum(), x, create_graph=True)
        torch.autograd.grad(first.sum(), x)
        if step in (19, 39):
            sizes.append(len(runtime.current()._counts))
    return sizes[1] - sizes[0]


def test_names_of_derivatives_do_not_add_up() -> None:
    assert run(_differentiated_again_and_again, 2) == [0, 0]
