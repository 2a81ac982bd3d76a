# SPDX-License-Identifier: Apache-2.0
"""The class of an optimizer that DistributedOptimizer() has wrapped."""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hipress import runtime
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.planned import PlanArgument, plan_to_set
from hipress.errors import Unsupported
from hipress.options.declaration import declared
from hipress.torch.backward import BackwardSynchronization
from hipress.torch.installed.private_names import needs_no_wrapper, not_compiled
from hipress.torch.options import TorchOptions
from hipress.torch.replicas import check_replicas

if TYPE_CHECKING:
    _Optimizer = torch.optim.Optimizer
else:
    _Optimizer = object  # the optimizer's original class is the base


class DistributedTorchOptimizer(NotCopied, _Optimizer):
    """The class that DistributedOptimizer() adds to the given optimizer: the object gets a class derived from both."""

    _hipress: BackwardSynchronization
    _hipress_skip: bool
    _hipress_synchronized = False  # synchronize() was called since the last step
    _hipress_warned = False

    def __init__(self, *_: object, **__: object) -> None:
        raise Unsupported(
            f"type(optimizer) is the class of a distributed optimizer, which only DistributedOptimizer() makes: make a "
            f"plain {type(self).__name__}, and wrap it"
        )

    def __init_subclass__(cls) -> None:
        """The optimizer's own class does not hear of the class that made_distributed() derives from it."""

    def synchronize(self) -> None:
        """Waits until every gradient is the combination of all ranks' gradients.

        After `backward()` the gradients are already combined, and this method does nothing; Horovod scripts call it
        before clipping. After `no_sync()` it synchronises the accumulated gradients. As in Horovod, call the next
        `step()` within `skip_synchronize()`; otherwise `step()` warns, once.
        """
        self._hipress.synchronize()
        self._hipress_synchronized = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """As in Horovod: from now on gradients accumulate over `passes` backward passes. Raises InvalidArgument."""
        declared(TorchOptions)["backward_passes_per_step"].check(passes)
        self._hipress.set_passes(passes)

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within this context `step()` does not synchronise. Horovod scripts use it after `synchronize()`."""
        self._hipress_skip = True
        try:
            yield
        finally:
            self._hipress_skip = False

    def skip_batch(self) -> None:
        """Leaves this rank's batch out of the current step; call `step()` after it, as on every other rank.

        Call it where the program catches an exception of forward, of backward or of the code before them:

            try:
                criterion(model(inputs), labels).backward()
            except torch.OutOfMemoryError:
                optimizer.skip_batch()  # before zero_grad()
            optimizer.step()

        Gradients that this rank has not handed over count as zero in the average; gradients that backward handed over
        before it raised count. skip_batch() waits for the other ranks' gradients; after a `backward()` that ended well
        skip_batch() does nothing.
        """
        self._hipress.skip()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters. Their gradients are synchronised from the next backward on, with the optimizer's `codec`.

        Every rank calls it between the same steps, and waits in it until all have agreed on the parameters. In
        `codec_for` and errors a parameter has the name that the group gives it ("params": [("head.weight", weight)]),
        or "parameter.7" if it is the optimizer's eighth. The gradient of a parameter that the plan does not name
        travels raw. Raises InvalidArgument, also while gradients are in flight; DuplicateName; Mismatch, with the first
        difference between the ranks' groups; Timeout if a rank does not call it. The group is not added then.
        """
        own: Any = super()
        groups: list[dict[str, Any]] = self.param_groups
        first = sum(len(group["params"]) for group in groups)
        own.add_param_group(param_group)
        added = groups[-1]
        names = added.get("param_names") or [f"parameter.{first + place}" for place in range(len(added["params"]))]
        try:
            self._hipress.extend(list(zip(names, added["params"], strict=True)))
        except BaseException:
            groups.pop()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the plain optimizer of the original class. The program that loads it wraps it again."""
        own: Any = super()
        return _plain, (type(self).__bases__[1], own.__getstate__())

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this context `backward()` accumulates gradients on this rank only; the next one synchronises them."""
        with self._hipress.paused():
            yield

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs of all gradients from the next backward on.

        Every rank calls it between the same steps. It replaces both `codec` and `codec_for` of DistributedOptimizer. If
        the old and the new codec have a state of the same name, the new codec goes on with its values: residuals
        survive when a ratio falls, or when onebit becomes graddrop. A residual that the new codec does not have is
        added to the next gradient; momentum that the new codec does not have (dgc's velocity) is lost.

        Raises InvalidArgument, also while gradients are in flight; Mismatch if the ranks' codecs differ (the old codecs
        stay); Timeout if a rank does not call it.
        """
        self._hipress.set_codec(codec, codec_for)

    def set_plan(self, plan: PlanArgument) -> None:
        """Follows the plan from the next backward on; None: gradients travel as without a plan.

        Every rank calls it between the same steps, with the same plan: a file or a hipress.secopa Plan. No residual is
        lost, even if another rank or no rank encodes a gradient from now on; momentum (dgc's velocity) is lost where
        another rank encodes.

        Raises InvalidArgument, with the first difference between plan and parameters, and while gradients are in
        flight; Mismatch if the ranks' plans differ (the old plan stays); Timeout if a rank does not call it.
        """
        self._hipress.set_plan(plan_to_set(plan))

    def _hipress_step(
        self, own_step: Callable[..., Any], closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Runs the optimizer's own step on synchronised gradients. If synchronisation fails, it raises the error and
        changes no parameter.
        """
        self._opt_called = True  # schedulers warn if they step before the optimizer
        if closure is None and self._hipress_synchronized and not (self._hipress_skip or self._hipress_warned):
            self._hipress_warn_of_synchronizing_twice()
        evaluation = self._hipress_prepared(closure)
        if evaluation is not None:
            args = (evaluation, *args)
        try:
            result = own_step(*args, **kwargs)
        except BaseException as error:
            # Optimizers change parameters only after the closure has returned once.
            if evaluation is None or evaluation.returned:
                self._hipress.update_raised(error)
            raise
        self._hipress_stepped()
        return result

    @not_compiled  # torch.compile(optimizer.step) compiles the optimizer's own step only
    def _hipress_prepared(self, closure: Callable[[], Any] | None) -> _Evaluation | None:
        """Synchronises the gradients; with a closure it returns one that does so."""
        evaluation = None
        if closure is not None:
            # The closure's backward passes synchronise; a rank whose backward touched no parameter does so afterwards.
            evaluation = _Evaluation(closure, None if self._hipress_skip else self._hipress)
        elif not self._hipress_skip:
            self._hipress.synchronize()
        self._hipress_synchronized = False
        return evaluation

    @not_compiled
    def _hipress_stepped(self) -> None:
        self._hipress.stepped()
        interval, steps = runtime.current().options.check_replicas, self._hipress.steps_taken()
        if interval and steps % interval == 0:
            check_replicas(self._hipress.named_parameters(), steps, self._hipress.process_set)

    def _hipress_warn_of_synchronizing_twice(self) -> None:
        self._hipress_warned = True
        warnings.warn(
            "optimizer.step() called without optimizer.skip_synchronize() after optimizer.synchronize(): in Horovod it "
            "combines gradients a second time; write `with optimizer.skip_synchronize(): optimizer.step()`",
            stacklevel=4,
        )


class _Evaluation:
    """A closure whose gradients are synchronised when it returns."""

    def __init__(self, closure: Callable[[], Any], synchronization: BackwardSynchronization | None) -> None:
        self._closure = closure
        self._synchronization = synchronization
        self.returned = False

    def __call__(self) -> Any:
        value = self._closure()
        if self._synchronization is not None:
            self._synchronization.synchronize()
        self.returned = True
        return value


def _plain(own_class: Any, state: Any) -> torch.optim.Optimizer:
    """The plain optimizer that unpickling a distributed optimizer gives."""
    optimizer: torch.optim.Optimizer = own_class.__new__(own_class)
    optimizer.__setstate__(state)
    return optimizer


def made_distributed(
    optimizer: torch.optim.Optimizer, synchronization: BackwardSynchronization
) -> DistributedTorchOptimizer:
    """Replaces the optimizer's class by a derived one. The object, its state and its schedulers stay the same."""
    attributes = vars(optimizer)
    derived = _derived_class(optimizer.__class__, attributes.pop("step", None))
    object.__setattr__(optimizer, "__class__", derived)
    attributes["_hipress"] = synchronization
    attributes["_hipress_skip"] = False
    weakref.finalize(optimizer, synchronization.detach)
    assert isinstance(optimizer, DistributedTorchOptimizer)
    return optimizer


def _derived_class(own: type[torch.optim.Optimizer], patched: Callable[..., Any] | None) -> type[Any]:
    """A class of the same name, as Horovod's: profilers, checkpoints and packages of users look at the name.

    `patched`: a step() that the program or a learning-rate scheduler has put into the object; it stays the own step.
    """

    @functools.wraps(own.step)  # GradScaler looks at the signature
    def step(self: DistributedTorchOptimizer, *args: Any, **kwargs: Any) -> Any:
        return self._hipress_step(patched or functools.partial(own.step, self), *args, **kwargs)

    # torch would wrap a step without the mark `hooked` again, at each load_state_dict(): the own step calls the hooks.
    step.hooked = True  # type: ignore[attr-defined]
    needs_no_wrapper(step)

    def fill(attributes: dict[str, Any]) -> None:
        attributes.update(step=step, __module__=own.__module__, __qualname__=own.__qualname__, __doc__=own.__doc__)

    return types.new_class(own.__name__, (DistributedTorchOptimizer, own), exec_body=fill)
