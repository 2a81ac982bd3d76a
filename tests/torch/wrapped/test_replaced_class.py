# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer replaces the class of an optimizer object: torch and the program see no other difference."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import hipress.torch as hp
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _backward(model: nn.Module) -> None:
    model.zero_grad()
    model(torch.ones(2, 3) * (1 + hp.rank())).square().sum().backward()


def _wrapped(optimizer: torch.optim.Optimizer, model: nn.Module) -> Any:
    hp.init()
    return hp.DistributedOptimizer(optimizer, model.named_parameters())


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def _hooks(seen: list[str], optimizer: torch.optim.Optimizer, when: str) -> None:
    optimizer.register_step_pre_hook(lambda *_: seen.append(f"{when}: before the step"))
    optimizer.register_step_post_hook(lambda *_: seen.append(f"{when}: after the step"))
    optimizer.register_state_dict_pre_hook(lambda *_: seen.append(f"{when}: before state_dict"))
    optimizer.register_state_dict_post_hook(lambda *_: seen.append(f"{when}: after state_dict"))
    optimizer.register_load_state_dict_pre_hook(lambda *_: seen.append(f"{when}: before load_state_dict"))
    optimizer.register_load_state_dict_post_hook(lambda *_: seen.append(f"{when}: after load_state_dict"))


def _every_hook(kind: str) -> list[list[str]]:
    """What hooks of the optimizer saw in a step before and after each way of loading a state."""
    hp.init()
    model = nn.Linear(3, 3)
    hp.broadcast_parameters(model.state_dict(), root_rank=0)
    seen: list[str] = []
    optimizer: Any
    if kind == "DistributedOptimizer":
        optimizer = _sgd(model)
        _hooks(seen, optimizer, "early")
        optimizer = _wrapped(optimizer, model)
    else:
        optimizer = hp.optim.OneBitAdam(model.named_parameters(), freeze_step=100)
        _hooks(seen, optimizer, "early")
    _hooks(seen, optimizer, "late")
    everywhere = [
        register_optimizer_step_pre_hook(lambda *_: seen.append("global: before the step")),
        register_optimizer_step_post_hook(lambda *_: seen.append("global: after the step")),
    ]
    steps = []

    def step() -> None:
        _backward(model)
        seen.clear()
        optimizer.step()
        steps.append(list(seen))

    step()
    if kind == "DistributedOptimizer":
        hp.broadcast_optimizer_state(optimizer, root_rank=0)
        step()
    for _ in range(2):
        seen.clear()
        optimizer.load_state_dict(optimizer.state_dict())
        steps.append(list(seen))
        step()
    for each in everywhere:
        each.remove()
    return steps


@pytest.mark.parametrize("kind", ["DistributedOptimizer", "OneBitAdam"])
def test_every_hook_runs_once_also_after_a_state_was_loaded(kind: str) -> None:
    step = [f"{when}: before the step" for when in ("global", "early", "late")]
    step += [f"{when}: after the step" for when in ("early", "late", "global")]
    load = [
        f"{when}: {side} {what}"
        for what in ("state_dict", "load_state_dict")
        for side in ("before", "after")
        for when in ("early", "late")
    ]
    first = [step, step] if kind == "DistributedOptimizer" else [step]
    assert run(_every_hook, 2, kind) == [[*first, load, step, load, step]] * 2


class _Slotted(torch.optim.SGD):
    __slots__ = ("calls",)

    def step(self, closure: Any = None) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return super().step(closure)


class _Registered(type):
    names: list[str] = []  # noqa: RUF012  (one list for all classes is what the test is about)

    def __init__(cls, name: str, bases: Any, attributes: Any, **options: Any) -> None:
        super().__init__(name, bases, attributes)


class _OfMetaclass(torch.optim.SGD, metaclass=_Registered):
    pass


class _OfRegistry(torch.optim.SGD):
    subclasses: list[str] = []  # noqa: RUF012  (one list for all classes is what the test is about)

    def __init_subclass__(cls, *, needed: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.subclasses.append(needed)


class _OfUser(_OfRegistry, needed="by the user's class"):
    def _stepped(self) -> None:
        raise AssertionError("a name of the user's class")


class _Forwarding(torch.optim.SGD):
    """Sets its attributes on another object, as optimizers that wrap another one do."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__class__":
            raise AssertionError("the class of another object")
        super().__setattr__(name, value)


def _class_of(kind: str) -> None:
    model = nn.Linear(3, 3)
    own = {each.__name__: each for each in (_Slotted, _OfMetaclass, _OfUser, _Forwarding, torch.optim.SGD)}[kind]
    plain = own(model.parameters(), lr=0.1)
    text = repr(plain)
    optimizer = _wrapped(plain, model)
    _backward(model)
    before = model.weight.detach().clone()
    optimizer.step()
    assert not torch.equal(model.weight, before)
    assert optimizer is plain
    assert isinstance(optimizer, own)
    names = [(each.__name__, each.__qualname__, each.__module__) for each in (type(optimizer), own)]
    assert names[0] == names[1]
    assert repr(optimizer) == text
    assert _OfRegistry.subclasses == ["by the user's class"]
    assert inspect.signature(optimizer.step) == inspect.signature(own(model.parameters(), lr=0.1).step)
    with pytest.raises(hp.Unsupported, match=f"make a plain {kind}, and wrap it"):
        type(optimizer)(model.parameters(), lr=0.1)
    file = io.BytesIO()
    torch.save(optimizer, file)
    assert type(torch.load(io.BytesIO(file.getvalue()), weights_only=False)) is own
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert kind != "_Slotted" or optimizer.calls == 2


@pytest.mark.parametrize("kind", ["SGD", "_Slotted", "_OfMetaclass", "_OfUser", "_Forwarding"])
def test_a_class_keeps_its_name_slots_metaclass_and_registry(kind: str) -> None:
    run(_class_of, 1, kind)


def _schedulers() -> None:
    model = nn.Linear(3, 3)
    optimizer: Any = _sgd(model)
    schedulers: list[Any] = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]
    optimizer = _wrapped(optimizer, model)
    schedulers.append(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(3):
            _backward(model)
            optimizer.step()
            for each in schedulers:
                each.step()
            if step == 1:
                optimizer.load_state_dict(optimizer.state_dict())
    late = torch.optim.lr_scheduler.ExponentialLR(_wrapped(_sgd(model), model), 0.5)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        late.step()


def test_schedulers_made_before_and_after_see_the_steps() -> None:
    run(_schedulers, 1)


def _spans() -> list[str]:
    model = nn.Linear(3, 3)
    optimizer = _wrapped(_sgd(model), model)
    optimizer.load_state_dict(optimizer.state_dict())
    _backward(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        optimizer.step()
        optimizer.zero_grad()
    return sorted(each.name for each in profile.events() if each.name.startswith("Optimizer."))


def test_a_profile_has_the_plain_optimizers_names_once() -> None:
    assert run(_spans, 1) == [["Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad"]]


def _compiled(when: str) -> tuple[bool, list[int]]:
    model, alone = nn.Linear(3, 3), nn.Linear(3, 3)
    alone.load_state_dict(model.state_dict())
    optimizer, plain = _sgd(model), _sgd(alone)
    if when == "before":
        optimizer.step = torch.compile(optimizer.step, backend="eager")  # type: ignore[method-assign]
    optimizer = _wrapped(optimizer, model)
    seen: list[int] = []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    step: Callable[[], Any] = optimizer.step
    if when == "after":
        step = torch.compile(step, backend="eager")
    for _ in range(3):
        for each in (model, alone):
            each.zero_grad()
            each(torch.ones(2, 3)).square().sum().backward()
        step()
        plain.step()
    return torch.equal(model.weight, alone.weight), [len(seen), optimizer._hipress.steps_taken()]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_compiled_step_is_the_plain_one(when: str) -> None:
    assert run(_compiled, 1, when) == [(True, [3, 3])]


class _TakesScaler(torch.optim.SGD):
    """An optimizer whose step() takes the scaler itself, as GradScaler's contract allows."""

    _step_supports_amp_scaling = True
    scalers = 0

    def step(self, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        grad_scaler.unscale_(self)
        self.scalers += 1
        return super().step(closure)


def _scaled() -> tuple[int, bool]:
    model, alone = nn.Linear(3, 3), nn.Linear(3, 3)
    alone.load_state_dict(model.state_dict())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = _wrapped(_TakesScaler(model.parameters(), lr=0.1), model)
    plain = torch.optim.SGD(alone.parameters(), lr=0.1)
    scaler.scale(model(torch.ones(2, 3)).square().sum()).backward()
    with pytest.warns(FutureWarning, match="stop passing itself"):
        scaler.step(optimizer)
    alone(torch.ones(2, 3)).square().sum().backward()
    plain.step()
    return optimizer.scalers, torch.allclose(model.weight, alone.weight)


def test_an_optimizer_that_takes_the_scaler_gets_it() -> None:
    assert run(_scaled, 1) == [(1, True)]
