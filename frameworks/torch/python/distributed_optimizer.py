# SPDX-License-Identifier: Apache-2.0
"""The class of an optimizer that DistributedOptimizer() has wrapped."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hipress import runtime
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.planned import PlanArgument, plan_to_set
from hipress.options.declaration import declared
from hipress.torch.backward import BackwardSynchronization
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
    _hipress_steps: int
    _hipress_synchronized = False  # synchronize() was called since the last step
    _hipress_warned = False

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
        groups: list[dict[str, Any]] = vars(self)["param_groups"]
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

    def step(  # type: ignore[override]
        self, closure: Callable[[], Any] | None = None, *args: object, **kwargs: object
    ) -> float | torch.Tensor | None:
        """Runs the optimizer's own step on synchronised gradients. If synchronisation fails, it raises the error and
        changes no parameter.
        """
        evaluation = None
        if closure is not None:
            # The closure's backward passes synchronise; a rank whose backward touched no parameter does so afterwards.
            evaluation = _Evaluation(closure, None if self._hipress_skip else self._hipress)
            args = (evaluation, *args)
        elif not self._hipress_skip:
            self._warn_of_synchronizing_twice()
            self._hipress.synchronize()
        self._hipress_synchronized = False
        try:
            result: float | torch.Tensor | None = super().step(*args, **kwargs)  # type: ignore[call-overload]
        except BaseException as error:
            # Optimizers change parameters only after the closure has returned once.
            if evaluation is None or evaluation.returned:
                self._hipress.update_raised(error)
            raise
        self._hipress.stepped()
        self._hipress_steps += 1
        interval = runtime.current().options.check_replicas
        if interval and self._hipress_steps % interval == 0:
            check_replicas(self._hipress.named_parameters(), self._hipress_steps)
        return result

    def _warn_of_synchronizing_twice(self) -> None:
        if self._hipress_synchronized and not self._hipress_warned:
            self._hipress_warned = True
            warnings.warn(
                "step() was called after synchronize() without skip_synchronize(): in Horovod it combines gradients "
                "a second time; write `with optimizer.skip_synchronize(): optimizer.step()`",
                stacklevel=3,
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
    own = optimizer.__class__
    patched = optimizer.__dict__.get("step")
    optimizer.__class__ = type(f"Distributed{own.__name__}", (DistributedTorchOptimizer, own), {})
    optimizer.__dict__["_hipress"] = synchronization
    optimizer.__dict__["_hipress_skip"] = False
    optimizer.__dict__["_hipress_steps"] = 0
    weakref.finalize(optimizer, synchronization.detach)
    if patched is not None:
        # An earlier learning-rate scheduler has put its own step() into the object; that one calls the plain step().
        del optimizer.__dict__["step"]
        reference = weakref.ref(optimizer)

        def step(*args: Any, **kwargs: Any) -> Any:
            target = reference()
            assert target is not None
            target._opt_called = True  # type: ignore[attr-defined]
            return type(target).step(target, *args, **kwargs)

        step._wrapped_by_lr_sched = getattr(patched, "_wrapped_by_lr_sched", True)  # type: ignore[attr-defined]
        optimizer.__dict__["step"] = step
    assert isinstance(optimizer, DistributedTorchOptimizer)
    return optimizer
