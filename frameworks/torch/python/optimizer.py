# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any torch optimizer, with gradients synchronised while backward still runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.gradient_options import gradient_options
from hipress.planned import PlanArgument, automatic_planning, before_planning, plan_to_set
from hipress.reduce_ops import Average, ReduceOp
from hipress.torch.backward import BackwardSynchronization
from hipress.torch.replicas import check_replicas
from hipress.torch.synchronizer import GradientSynchronizer


class _DistributedMixin:
    """What a distributed optimizer has beside its own class."""

    _hipress: BackwardSynchronization
    _hipress_skip: bool
    _hipress_steps: int

    def synchronize(self) -> None:
        """Waits until every gradient is the combination of all ranks' gradients.

        After `backward()` this is the case already, and nothing is done; call it to be sure before clipping. After
        `no_sync()` it synchronises what was accumulated.
        """
        self._hipress.synchronize()

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step()` does not synchronise: for use after `synchronize()`, as in Horovod scripts."""
        self._hipress_skip = True
        try:
            yield
        finally:
            self._hipress_skip = False

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it `backward()` accumulates gradients on this rank only; the next one outside synchronises them."""
        with self._hipress.paused():
            yield

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """From the next backward on gradients travel with these codecs, as if given to DistributedOptimizer.

        Every rank calls it between the same steps. It replaces both `codec` and `codec_for`. What codecs remember is
        kept where the old and the new one call it the same: residuals live on when a ratio falls, or when onebit
        becomes graddrop. A residual that the new codec does not know joins the next gradient; momentum that it does not
        know (dgc's velocity) is forgotten.

        Raises InvalidArgument, also while gradients are in flight; Mismatch if the ranks' codecs differ (the old ones
        stay); Timeout if a rank does not call it.
        """
        self._hipress.set_codec(codec, codec_for)

    def set_plan(self, plan: PlanArgument) -> None:
        """From the next backward on gradients travel as the plan says; None: as without one.

        Every rank calls it between the same steps, with the same plan: a file or a hipress.secopa Plan. What codecs
        have dropped is not lost, whichever rank encodes a gradient from now on, or none; momentum (dgc's velocity) is
        forgotten where another rank does.

        Raises InvalidArgument, with the first difference between plan and parameters, and while gradients are in
        flight; Mismatch if the ranks' plans differ (the old way stays); Timeout if a rank does not call it.
        """
        self._hipress.set_plan(plan_to_set(plan))

    def _synchronized(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            value = closure()
            self._hipress.synchronize()
            return value

        return evaluate

    def step(self, closure: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own step, on synchronised gradients. Raises, and changes no parameter, if they are not."""
        if closure is not None:
            # Its backward passes synchronise; a rank whose backward touched no parameter does so after it.
            args = (closure if self._hipress_skip else self._synchronized(closure), *args)
        elif not self._hipress_skip:
            self._hipress.synchronize()
        result = super().step(*args, **kwargs)  # type: ignore[misc]
        self._hipress.stepped()
        self._hipress_steps += 1
        interval = runtime.current().options.check_replicas
        if interval and self._hipress_steps % interval == 0:
            check_replicas(self._hipress.named_parameters(), self._hipress_steps)
        return result


def _named(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None
) -> list[tuple[str, torch.nn.Parameter]]:
    """The optimizer's parameters with names, in the order given. Raises InvalidArgument."""
    of_optimizer = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        return [(f"parameter.{index}", parameter) for index, parameter in enumerate(of_optimizer)]
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise InvalidArgument("named_parameters takes (name, parameter) pairs, such as model.named_parameters()")
    wanted = {id(parameter) for parameter in of_optimizer}
    named = [(name, parameter) for name, parameter in pairs if id(parameter) in wanted]
    missing = wanted - {id(parameter) for _, parameter in named}
    if missing:
        shapes = [tuple(parameter.shape) for parameter in of_optimizer if id(parameter) in missing]
        raise InvalidArgument(
            f"{len(missing)} of the optimizer's parameters have no name (the first has shape {shapes[0]}); "
            "pass the named_parameters() of the whole model"
        )
    return named


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
    plan: PlanArgument = None,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    sparse_as_dense: bool = False,
) -> Any:
    """Makes `optimizer` step on gradients combined over all ranks; returns it, now also of a distributed class.

    Gradients are submitted as backward produces them, so that synchronisation overlaps the rest of backward. When
    `backward()` returns, every `.grad` holds the combined gradient: clipping and GradScaler need no special recipe
    (Horovod's, with `synchronize()` and `skip_synchronize()`, works too). Parameters that a rank did not use in a step
    count as zero there; if no rank used one, its `.grad` stays as it is.

    Every rank calls it with the same arguments and calls `backward()` the same number of times between steps.

    Arguments:
        optimizer: any torch optimizer.
        named_parameters: `model.named_parameters()`; names appear in errors and traces and key what codecs remember.
        codec: how gradients are compressed: "none", "fp16", "onebit", "tbq", "terngrad", "dgc" or "graddrop", or a
            loaded one; with options: "dgc(ratio=0.01)". `set_codec()` changes it later.
        topology: how they travel: "ps", "ring", "allgather" or "hierarchical".
        partitions: pieces per tensor; 0: by size.
        min_compress_bytes: smaller gradients travel as they are.
        codec_for: codecs of single parameters by name, e.g. {"embedding.weight": "fp16"}.
        plan: says of each parameter how its gradient travels, in place of the five before: a file that `hipress plan`
            has written (of one with lines `name,size,y|n,K`, `codec` and `topology` say the rest), or a hipress.secopa
            Plan. `set_plan()` changes it later. "auto": gradients travel as they are in the first steps; then links
            and `codec` are measured, and planned is whether to use it, parameter by parameter, and all the rest. If
            steps later take something else, the plan is made anew. The logger "hipress.plan" says so on rank 0.
            hipress.secopa.automatic.AutomaticOptions instead of "auto" allow several codecs, and say how often to look.
        backward_passes_per_step: gradients are accumulated over so many backward passes, then synchronised.
        op: Average or Sum.
        gradient_predivide_factor: f splits averaging: gradients are divided by f before they are summed, and the sum is
            multiplied by f / size() afterwards.
        sparse_as_dense: turn sparse gradients into dense ones. Otherwise every rank gets the entries of all, without a
            codec; in the first step every rank must then have a gradient for each such parameter.

    Raises InvalidArgument, Unsupported, DuplicateName; Mismatch with the first difference if the ranks' parameters
    differ; Timeout if a rank does not call it; NotInitialized.
    """
    if backward_passes_per_step < 1:
        raise InvalidArgument(f"backward_passes_per_step={backward_passes_per_step} must be at least 1")
    if isinstance(optimizer, _DistributedMixin):
        raise InvalidArgument("this optimizer is distributed already; wrap it once")
    options = gradient_options(
        codec=codec,
        topology=topology,
        partitions=partitions,
        min_compress_bytes=min_compress_bytes,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        codec_for=codec_for,
        plan=plan,
    )
    named = _named(optimizer, named_parameters)
    synchronizer = GradientSynchronizer(named, before_planning(plan, options))
    synchronization = BackwardSynchronization(
        synchronizer, named, passes=backward_passes_per_step, sparse_as_dense=sparse_as_dense
    )
    synchronization.planning = automatic_planning(plan, synchronizer, options, synchronization.groups_are_safe)
    _make_distributed(optimizer, synchronization)
    return optimizer


def _make_distributed(optimizer: torch.optim.Optimizer, synchronization: BackwardSynchronization) -> None:
    """Gives the object itself a derived class: its state, and schedulers that refer to it, stay what they are."""
    own = optimizer.__class__
    patched = optimizer.__dict__.get("step")
    optimizer.__class__ = type(f"Distributed{own.__name__}", (_DistributedMixin, own), {})
    optimizer.__dict__["_hipress"] = synchronization
    optimizer.__dict__["_hipress_skip"] = False
    optimizer.__dict__["_hipress_steps"] = 0
    weakref.finalize(optimizer, synchronization.detach)
    if patched is not None:
        # A learning-rate scheduler made before has put its own step() into the object, around the undistributed one.
        del optimizer.__dict__["step"]
        reference = weakref.ref(optimizer)

        def step(*args: Any, **kwargs: Any) -> Any:
            target = reference()
            assert target is not None
            target._opt_called = True  # type: ignore[attr-defined]
            return type(target).step(target, *args, **kwargs)

        step._wrapped_by_lr_sched = getattr(patched, "_wrapped_by_lr_sched", True)  # type: ignore[attr-defined]
        optimizer.__dict__["step"] = step
