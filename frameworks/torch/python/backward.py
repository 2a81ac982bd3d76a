# SPDX-License-Identifier: Apache-2.0
"""When gradients are synchronised: hooks that submit each one as backward produces it, and the end of backward."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.operations import Operation
from hipress.torch.collectives import sparse_allreduce_async
from hipress.torch.operators import is_dense
from hipress.torch.synchronizer import GradientSynchronizer

if TYPE_CHECKING:
    from hipress.secopa.automatic import AutomaticPlanning
    from hipress.secopa.plan import Plan


class BackwardSynchronization:
    """Keeps `.grad` of a list of parameters synchronised.

    One round synchronises every parameter that requires a gradient exactly once, on every rank: those whose gradient
    backward computes are submitted by their hooks; when backward ends, the others follow (with their accumulated
    `.grad`, or as absent) and all are waited for. A rank whose backward touches no parameter has its round in `step()`.
    Synchronised gradients that another backward adds to before the step are synchronised again: the old part is equal
    on all ranks, so averaging it once more changes nothing.
    """

    def __init__(
        self,
        synchronizer: GradientSynchronizer,
        named_parameters: list[tuple[str, torch.nn.Parameter]],
        *,
        passes: int,
        sparse_as_dense: bool,
    ) -> None:
        self._synchronizer = synchronizer
        self._named = named_parameters
        self._passes = passes
        self._sparse_as_dense = sparse_as_dense
        self._passes_done = 0
        self._paused = False
        self._backward_pass = -1  # torch's number of the backward pass that runs now; -1: none
        self._backward_started = 0
        self._clean = False  # .grad is synchronised and unchanged since
        self._handles: dict[int, int] = {}  # parameter's index → operation in flight
        self._sparse: set[int] = set()  # parameters' indices: their gradients are sparse
        self._sparse_handles: dict[int, Operation] = {}
        self._absent: dict[int, torch.Tensor] = {}  # parameter's index → where the others' gradient arrives
        self._hooks: dict[int, Any] = {}
        #: Plans, from what steps show; None: nobody does.
        self.planning: AutomaticPlanning | None = None
        self._round_s = 0.0  # from a round's first gradient to its last average
        self._core = load_core()
        self._engine = runtime.current().engine
        self._attach()

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return self._named

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None) -> None:
        """From the next round on: see GradientSynchronizer.set_codec(). Raises InvalidArgument within backward."""
        self._check_idle("set_codec")
        self.planning = None
        self._synchronizer.set_codec(codec, codec_for)

    def set_plan(self, plan: Plan | None) -> None:
        """From the next round on: see GradientSynchronizer.set_plan(). Raises InvalidArgument within backward."""
        self._check_idle("set_plan")
        self.planning = None
        self._synchronizer.set_plan(plan)

    def _check_idle(self, doing: str) -> None:
        if self._handles or self._sparse_handles or torch._C._current_graph_task_id() != -1:
            raise InvalidArgument(
                f"{doing}() was called while gradients are in flight; call it between steps, not within backward(), "
                "and after a backward() that failed call synchronize() first"
            )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it gradients only accumulate."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def synchronize(self) -> None:
        """One round, unless `.grad` is synchronised already."""
        if not self._clean:
            self._finish_round()

    def stepped(self) -> None:
        """The optimizer has used the gradients: the next step needs a new round."""
        self._clean = False
        self._passes_done = 0
        if self.planning is not None:
            self.planning.step_ended(self._round_s)

    def groups_are_safe(self) -> bool:
        """Whether every parameter has a dense gradient: a group waits for all of its members."""
        return not self._sparse

    def detach(self) -> None:
        """Removes the hooks."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()

    def _attach(self) -> None:
        """Hooks every parameter that requires a gradient by now; frozen ones may get theirs later."""
        reference = weakref.ref(self)
        for index, (_, parameter) in enumerate(self._named):
            if index in self._hooks or not parameter.requires_grad:
                continue

            def hook(parameter: torch.Tensor, index: int = index) -> None:
                target = reference()
                if target is not None:
                    target._on_gradient(index, parameter)

            self._hooks[index] = parameter.register_post_accumulate_grad_hook(hook)

    def _on_gradient(self, index: int, parameter: torch.Tensor) -> None:
        current_pass = torch._C._current_graph_task_id()
        if current_pass != self._backward_pass:
            self._backward_pass = current_pass
            self._backward_started = self._core.trace_now()
            self._wait()  # operations of a backward pass that ended with an error
            # torch calls this once, when the backward pass that runs now has ended.
            torch.autograd.Variable._execution_engine.queue_callback(self._on_backward_end)
        self._clean = False
        if self._paused or self._passes_done + 1 < self._passes or self._is_in_flight(index):
            return
        if self.planning is not None:
            self.planning.released(index)
        self._submit(index, parameter)

    def _on_backward_end(self) -> None:
        if self._backward_pass == -1:
            return  # a backward pass within this one (checkpointing) made torch call this twice
        self._backward_pass = -1
        if self._paused:
            return
        self._passes_done += 1
        if self._passes_done < self._passes:
            return
        if self.planning is not None:
            self.planning.backward_ended()
        self._finish_round()
        ended = self._core.trace_now()
        self._round_s = 1e-9 * (ended - self._backward_started)
        if self._engine.traced:
            self._engine.record_span("backward", self._backward_started, ended)

    def _submit(self, index: int, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if self._is_sparse(index, gradient):
            return self._submit_sparse(index, parameter)
        if gradient is None:
            output = torch.zeros_like(parameter)
            self._absent[index] = output
            self._handles[index] = self._synchronizer.submit_absent(index, output)
            return
        if self._sparse_as_dense and gradient.layout != torch.strided:
            gradient = parameter.grad = gradient.to_dense()
        if is_dense(gradient) and gradient.is_contiguous() != parameter.is_contiguous():
            # Ranks combine elements in memory order: it must be the parameter's on all of them.
            gradient = parameter.grad = torch.empty_like(parameter).copy_(gradient)
        self._handles[index] = self._synchronizer.submit(index, gradient)

    def _is_in_flight(self, index: int) -> bool:
        return index in self._handles or index in self._sparse_handles

    def _is_sparse(self, index: int, gradient: torch.Tensor | None) -> bool:
        """Whether it is; without a gradient, whether it was when there was one."""
        if gradient is not None:
            if gradient.layout == torch.sparse_coo and not self._sparse_as_dense:
                self._sparse.add(index)
            else:
                self._sparse.discard(index)
        return index in self._sparse

    def _submit_sparse(self, index: int, parameter: torch.Tensor) -> None:
        if group := self._synchronizer.group(index):
            raise InvalidArgument(
                f"the gradient of '{self._named[index][0]}' is sparse, and the plan has it travel in group '{group}': "
                "plan it alone, or give sparse_as_dense=True"
            )
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.sparse_coo_tensor(
                torch.empty(1, 0, dtype=torch.int64), parameter.new_empty(0, *parameter.shape[1:]), parameter.shape
            )
        options = self._synchronizer.options
        operation = sparse_allreduce_async(
            gradient * options.prescale_factor, self._synchronizer.name(index), options.op
        )
        self._sparse_handles[index] = operation.then(lambda combined: combined * options.postscale_factor)

    def _finish_round(self) -> None:
        self._attach()
        for index, (_, parameter) in enumerate(self._named):
            # A group travels when all of its members are there, those that are frozen among them.
            takes_part = parameter.requires_grad or self._synchronizer.group(index) is not None
            if takes_part and not self._is_in_flight(index):
                self._submit(index, parameter)
        self._wait()
        self._passes_done = 0
        self._clean = True

    def _wait(self) -> None:
        handles, self._handles = self._handles, {}
        absent, self._absent = self._absent, {}
        sparse_handles, self._sparse_handles = self._sparse_handles, {}
        for index, handle in handles.items():
            any_values = self._synchronizer.wait(handle)
            if index in absent and any_values and self._named[index][1].requires_grad:
                self._named[index][1].grad = absent[index]
        for index, operation in sparse_handles.items():
            self._named[index][1].grad = operation.wait()
