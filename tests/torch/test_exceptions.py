# SPDX-License-Identifier: Apache-2.0
"""If an exception ends a step on one rank, either all ranks get an error within a step or none does; replicas never
differ."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.frameworks.faulty_rank import (
    FAULT,
    FAULTY,
    STEPS,
    Boom,
    Fault,
    Outcome,
    check_that_all_steps_were_taken,
    check_that_the_missed_update_ended_all,
    check_that_the_others_name_who_left,
    check_that_the_update_ended_all,
    outcomes_of,
    run_steps,
)
from tests.torch.models import fingerprint, loss, mlp
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

#: Places before the rank has handed over a gradient of the step: the rank has not begun the step.
BEFORE = ["loader", "forward", "early in backward", "forward in closure"]
#: Places after the rank has handed over some gradients: only skip_batch() can end the step.
WITHIN = ["late in backward", "user's hook", "late in backward in closure"]
#: Places where all ranks have the averages, and this rank may have used some of them.
AFTER = ["between", "step"]


class Raising(torch.autograd.Function):
    """The identity function; its backward raises while `armed` is set."""

    armed = False

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        if Raising.armed:
            Raising.armed = False
            raise Boom("in backward")
        return gradient


class Model(nn.Module):
    """A model that raises in backward: before the first gradient of a parameter, or after half of the gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()
        self.late = True

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.late:
            return self.layers[3:](Raising.apply(self.layers[:3](inputs)))
        return Raising.apply(self.layers(inputs))


class Sgd(torch.optim.SGD):
    """Updates one parameter and then raises."""

    armed = False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if self.armed:
            self.armed = False
            self.param_groups[0]["params"][0].add_(1.0)
            raise Boom("in step")
        return super().step(closure)


def _train(site: str, action: str) -> Outcome:
    hp.init()
    model = Model()
    model.late = site != "early in backward"
    optimizer = hp.DistributedOptimizer(Sgd(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters())
    fault = Fault(site)
    current = 0

    def user_hook(_: Any) -> None:
        fault.raise_at("user's hook", current)

    model.layers[0].bias.register_post_accumulate_grad_hook(user_hook)

    def forward_and_backward(number: int) -> torch.Tensor:
        value = loss(model, hp.rank(), number)
        fault.raise_at("forward in closure" if "closure" in site else "forward", number)
        if "in backward" in site and fault.comes(number):
            Raising.armed = True
        value.backward()
        return value

    def step(number: int) -> None:
        nonlocal current
        current = number
        fault.raise_at("loader", number)
        if "closure" in site:

            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                return forward_and_backward(number)

            optimizer.step(closure)
            return
        optimizer.zero_grad()
        forward_and_backward(number)
        fault.raise_at("between", number)
        if fault.comes(number, "step"):
            optimizer.armed = True
        optimizer.step()

    def skip() -> None:
        optimizer.skip_batch()
        optimizer.step()

    return run_steps(step, lambda: fingerprint(model), hp.shutdown, action=action, skip=skip)


def _outcomes(site: str, action: str) -> list[Outcome]:
    return outcomes_of(run, _train, site, action)


@pytest.mark.parametrize("site", BEFORE)
def test_what_raises_before_a_gradient_was_handed_over_may_be_repeated(site: str) -> None:
    check_that_all_steps_were_taken(_outcomes(site, "repeat"))


@pytest.mark.parametrize("site", ["forward", "forward in closure"])
def test_a_rank_that_takes_fewer_steps_is_named_when_it_leaves(site: str) -> None:
    check_that_the_others_name_who_left(_outcomes(site, "go on"), STEPS - 1)


@pytest.mark.parametrize("action", ["go on", "repeat"])
@pytest.mark.parametrize("site", WITHIN)
def test_a_rank_that_goes_on_in_the_middle_of_a_step_ends_all(site: str, action: str) -> None:
    for seen, kind, text in _outcomes(site, action):
        assert len(seen) == FAULT
        assert kind == "Mismatch"
        where = "in user's hook" if "hook" in site else "in backward"
        assert f"rank 1 raised Boom: {where} in backward()" in text
        assert "skip_batch()" in text


def _all_raise(differ: bool) -> str:
    hp.init()
    model = Model()
    model.late = not (differ and hp.rank() == 1)
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def user_hook(_: Any) -> None:
        raise Boom("on all ranks")

    place = -2 if differ and hp.rank() == 1 else 2
    hook = list(model.parameters())[place].register_post_accumulate_grad_hook(user_hook)
    with pytest.raises(Boom):
        loss(model, hp.rank(), 0).backward()
    hook.remove()
    optimizer.zero_grad()
    loss(model, hp.rank(), 1).backward()
    optimizer.step()
    return fingerprint(model)


def test_ranks_that_all_leave_backward_alike_go_on() -> None:
    assert len(set(run(_all_raise, 2, False))) == 1


def test_ranks_that_leave_backward_at_different_gradients_do_not() -> None:
    for outcome in outcomes(_all_raise, 2, True):
        assert isinstance(outcome, hp.Mismatch)
        assert "raised Boom: on all ranks in backward()" in str(outcome)


def _last_wait_fails() -> None:
    hp.init()
    model = Model()
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    if hp.rank() == FAULTY:
        synchronizer = optimizer._hipress.synchronizer
        waits = synchronizer.wait
        left = [len(list(model.parameters()))]

        def wait(handle: int) -> Any:
            left[0] -= 1
            result = waits(handle)
            if left[0] == 0:
                raise hp.PeerLost("the last gradient did not arrive")
            return result

        synchronizer.wait = wait
    kept: hp.HipressError | None = None  # keeps its traceback, as `except` does
    try:
        loss(model, hp.rank(), 0).backward()
    except hp.PeerLost as error:
        kept = error
    before = fingerprint(model)
    if kept is not None:
        with pytest.raises(hp.HipressError):
            optimizer.step()
        assert fingerprint(model) == before


def test_a_step_does_not_use_a_gradient_that_did_not_arrive() -> None:
    run(_last_wait_fails, 2)


@pytest.mark.parametrize("action", ["go on", "repeat"])
def test_a_rank_that_misses_an_update_ends_all(action: str) -> None:
    check_that_the_missed_update_ended_all(_outcomes("between", action))


@pytest.mark.parametrize("action", ["go on", "repeat", "end", "raise"])
def test_an_update_that_raises_ends_all(action: str) -> None:
    check_that_the_update_ended_all(_outcomes("step", action), action, "step in step()")


@pytest.mark.parametrize("action", ["end", "raise"])
@pytest.mark.parametrize("site", ["forward", "late in backward"])
def test_a_rank_that_ends_is_named_with_what_it_raised(site: str, action: str) -> None:
    for rank, (seen, kind, text) in enumerate(_outcomes(site, action)):
        if rank == FAULTY:
            assert len(seen) == FAULT
            continue
        # A slow rank may still wait for the last values of the step before when it hears of the end.
        assert FAULT - 1 <= len(seen) <= FAULT
        assert kind == "PeerLost"
        assert "rank 1" in text
        if site != "forward":
            assert "rank 1 ended in the middle of a step: it raised Boom: in backward" in text
            assert "gradients of step 2 had been handed over" in text


@pytest.mark.parametrize("site", [*BEFORE, *WITHIN])
def test_a_step_may_be_taken_without_a_batch(site: str) -> None:
    for seen, kind, text in _outcomes(site, "skip"):
        assert (len(seen), kind) == (STEPS, ""), text


def _skipped_too_late() -> None:
    hp.init()
    model = Model()
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    Raising.armed = hp.rank() == FAULTY
    try:
        loss(model, hp.rank(), 0).backward()
    except Boom:
        optimizer.zero_grad(set_to_none=False)
        optimizer.skip_batch()
    optimizer.step()


def test_gradients_that_were_changed_meanwhile_are_no_result() -> None:
    for outcome in outcomes(_skipped_too_late, 2):
        assert isinstance(outcome, hp.Mismatch)
        assert "call skip_batch() before zero_grad()" in str(outcome)


def _accumulating(passes: int) -> list[str]:
    hp.init()
    model = Model()
    options = {"backward_passes_per_step": passes}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), **options)
    seen = []
    for step in range(3):
        optimizer.zero_grad()
        for micro in range(passes):
            Raising.armed = hp.rank() == FAULTY and (step, micro) == (1, 0)
            try:
                loss(model, hp.rank(), 10 * step + micro).backward()
            except Boom:
                optimizer.skip_batch()
                break
        optimizer.step()
        seen.append(fingerprint(model))
    return seen


def test_a_rank_may_skip_a_batch_of_several_passes() -> None:
    by_rank = run(_accumulating, 2, 3)
    assert by_rank[0] == by_rank[1]
    assert len(set(by_rank[0])) == 3


def _group_added(differ: str) -> tuple[list[str], bool]:
    hp.init()
    model = mlp()
    head = nn.Linear(4, 4 if differ != "shape" or hp.rank() == 0 else 5)
    torch.manual_seed(0)
    nn.init.normal_(head.weight)
    nn.init.zeros_(head.bias)
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.named_parameters(), lr=0.1), model.named_parameters(), codec="onebit"
    )
    seen = []
    for step in range(4):
        if step == 2:
            groups = len(optimizer.param_groups)
            try:
                optimizer.add_param_group({"params": [(f"head.{n}", p) for n, p in head.named_parameters()]})
            except hp.Mismatch:
                assert len(optimizer.param_groups) == groups
                raise
        optimizer.zero_grad()
        inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(10 * step + hp.rank()))
        outputs = model(inputs)
        (head(outputs) if step >= 2 else outputs).square().mean().backward()
        optimizer.step()
        if differ == "values" and step == 3 and hp.rank() == 1:
            with torch.no_grad():
                head.bias.add_(1.0)
        seen.append(fingerprint(model) + fingerprint(head))
    optimizer.set_codec("none")
    if differ == "values":
        optimizer.zero_grad()
        head(model(torch.ones(2, 16))).sum().backward()
        optimizer.step()
    return seen, head.weight.grad is not None


def test_parameters_that_are_added_are_synchronised() -> None:
    results = run(_group_added, 2, "")
    assert results[0] == results[1]
    assert len(set(results[0][0])) == 4


def test_added_parameters_that_differ_are_refused() -> None:
    for outcome in outcomes(_group_added, 2, "shape"):
        assert isinstance(outcome, hp.Mismatch)
        assert "head.weight" in str(outcome)


def test_the_check_of_replicas_looks_at_added_parameters() -> None:
    for outcome in outcomes(_group_added, 2, "values", HIPRESS_CHECK_REPLICAS="5"):
        assert isinstance(outcome, hp.Mismatch)
        assert "head.bias" in str(outcome)


def _of_an_engine_before() -> str:
    hp.init()
    model = mlp()
    optimizer = hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    hp.shutdown()
    hp.init()
    with pytest.raises(hp.NotInitialized) as raised:
        loss(model, 0, 0).backward()
    with pytest.raises(hp.NotInitialized, match="before the last shutdown"):
        optimizer.set_codec("fp16")
    with pytest.raises(hp.NotInitialized, match="before the last shutdown"):
        optimizer.step()
    return str(raised.value)


def test_an_optimizer_of_an_engine_that_was_shut_down_says_so() -> None:
    assert "made before the last shutdown()" in run(_of_an_engine_before, 1)[0]


def _pickled() -> None:
    hp.init()
    model = mlp()
    optimizer = hp.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters()
    )
    loss(model, 0, 0).backward()
    optimizer.step()
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(hp.Unsupported, match="cannot be copied"):
            copied(optimizer)
    plain = pickle.loads(pickle.dumps(optimizer))
    assert type(plain) is torch.optim.SGD
    assert plain.param_groups[0]["momentum"] == 0.9
    assert len(plain.state) == len(optimizer.state)
    parameter = plain.param_groups[0]["params"][0]
    parameter.grad = torch.ones_like(parameter)
    plain.step()
    hp.DistributedOptimizer(plain)


def test_a_pickled_optimizer_is_the_plain_one_and_a_copy_is_refused() -> None:
    run(_pickled, 1)
