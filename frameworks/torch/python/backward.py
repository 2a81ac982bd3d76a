# SPDX-License-Identifier: Apache-2.0
"""Hooks that submit each gradient as soon as backward has produced it, and the wait at the end of backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hipress import runtime, unfinished
from hipress._library import load_core
from hipress.adapter.compression import Compressing
from hipress.adapter.lists import restarting
from hipress.adapter.operations import Operation
from hipress.errors import HipressError, InvalidArgument, Timeout
from hipress.torch import backward_passes
from hipress.torch.backward_passes import BackwardPass
from hipress.torch.collectives import allreduce_async, sparse_allreduce_async
from hipress.torch.installed.private_names import running_backward_pass, version_of
from hipress.torch.operators import is_dense
from hipress.torch.reals import is_lazy, resolved
from hipress.torch.synchronizer import GradientSynchronizer
from hipress.torch.watching.rounds import WatchedRounds

if TYPE_CHECKING:
    from hipress.adapter.automatic_codec import AutomaticCodec
    from hipress.secopa.online.automatic import AutomaticPlanning
    from hipress.secopa.plan.plan import Plan


#: Seconds for which a rank that has left a synchronisation round open waits for the other ranks to do the same. Ranks
#: whose code raises the same exception leave it open at the same time.
_PATIENCE = 2.0


class BackwardSynchronization:
    """Keeps `.grad` of a list of parameters synchronised.

    One synchronisation round synchronises every parameter that requires a gradient exactly once, on every rank. A hook
    submits each gradient that backward computes. When backward ends, this class submits the other gradients (their
    accumulated `.grad`, or as absent) and waits for all. A rank whose backward touches no parameter has its round in
    `step()`. If another backward adds to a synchronised gradient before the step, the gradient is synchronised again:
    its old part is equal on all ranks, so the second average does not change that part.

    Checkpointing with use_reentrant=True runs backward passes within backward. They belong to the outer pass, and may
    add to one gradient several times. So this class submits all gradients at the end of the outer pass, unless the last
    backward had no pass within it.

    A backward pass that raises leaves its round open if it has handed over some gradients: the other ranks wait for the
    rest. skip() ends such a round. Every other method then raises Mismatch on all ranks, with the text of the
    exception.
    """

    def __init__(
        self,
        synchronizer: GradientSynchronizer,
        named_parameters: list[tuple[str, torch.nn.Parameter]],
        *,
        passes: int,
        sparse_as_dense: bool,
        compressor: Compressing | None = None,
        takes_sparse_only: bool = False,
    ) -> None:
        self.synchronizer = synchronizer
        self.process_set = synchronizer.process_set
        self._ranks = self.process_set.size()
        self._named = named_parameters
        self._passes = passes
        self._sparse_as_dense = sparse_as_dense
        self._compressor = compressor
        self._takes_sparse_only = takes_sparse_only
        self._as_horovod = False
        self._passes_done = 0
        self._paused = False
        self._pass: weakref.ref[BackwardPass] | None = None  # dead: that pass has ended or raised
        self._waits_for_end = False  # gradients are handed over at the end of a backward pass
        self._handed_over: set[int] = set()  # indices of parameters, in this round
        self._again: set[int] = set()  # of these, the ones that a nested pass has added to
        self._raised = ""  # the exception that ended this round early
        self._left_open = 0  # number of rounds left open
        self._backward_started = 0
        self._clean = False  # .grad is synchronised and unchanged since
        self._handles: dict[int, int] = {}  # parameter's index → operation in flight
        self._sent: dict[int, tuple[torch.Tensor, int]] = {}  # gradients in flight, with torch's change counts
        self._sparse: set[int] = set()  # indices of parameters with sparse gradients
        self._made_dense: dict[int, int] = {}  # parameter's index → number of sparse dimensions
        #: Operations of sparse gradients, and of all gradients with a compressor, by parameter's index. Each result
        #: becomes the parameter's `.grad`.
        self._operations: dict[int, Operation[torch.Tensor]] = {}
        self._absent: dict[int, torch.Tensor] = {}  # parameter's index → buffer for the other ranks' result
        self._hooks: dict[int, Any] = {}
        #: Makes plans, or chooses a codec, from the times of steps; None: both are given.
        self.planning: AutomaticPlanning | AutomaticCodec | None = None
        #: Makes such planning, at first and when the ranks have changed; its argument is groups_are_safe().
        self.make_planning: Callable[[Callable[[], bool]], AutomaticPlanning | AutomaticCodec | None] = lambda _: None
        self.watching = WatchedRounds()
        self._round_s = 0.0  # seconds from a round's first gradient to its last average
        self._core = load_core()
        self._process = runtime.current()
        self._engine = self._process.engine
        self._process.steps.add(self)
        backward_passes.listen(self)
        self._attach()
        restarting.note(self)

    def restart(self) -> None:
        """See restarting.Restartable. The gradients of a step that has not ended are left out."""
        self._pass = None
        self._raised, self._passes_done, self._clean, self._waits_for_end = "", 0, False, False
        for each in (self._handed_over, self._again, self._handles, self._sent, self._operations, self._absent):
            each.clear()
        self.planning = None
        self.watching.drop()
        self.synchronizer.restart_with(self._named)
        self._ranks = self.process_set.size()
        self._process = runtime.current()
        self._engine = self._process.engine
        self._process.steps.add(self)
        self.plan()

    def plan(self) -> None:
        """Begins to plan by the times of steps, if the options say so."""
        self.planning = self.make_planning(self.groups_are_safe)

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        return self._named

    def extend(self, named_parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
        """Synchronises these parameters, too, from the next backward on. All ranks call it; see TensorList.extend()."""
        self.check_idle("add_param_group")
        if self.planning is not None:
            raise InvalidArgument(
                "an automatic plan is for the parameters of the optimizer when it was wrapped: call set_plan(None) on "
                "all ranks before add_param_group(), or wrap the optimizer with all parameters"
            )
        self.synchronizer.extend_by(named_parameters)
        self._named = [*self._named, *named_parameters]
        self._attach()

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None) -> None:
        """Changes the codecs from the next round on, see TensorList.set_codec(). Raises InvalidArgument within
        backward."""
        self.check_idle("set_codec")
        self.planning = None
        self.synchronizer.set_codec(codec, codec_for)

    def set_plan(self, plan: Plan | None) -> None:
        """Changes the plan from the next round on, see TensorList.set_plan(). Raises InvalidArgument within
        backward."""
        self.check_idle("set_plan")
        self.planning = None
        self.synchronizer.set_plan(plan)

    def between_steps(self, doing: str) -> GradientSynchronizer:
        """The list of gradients. Raises InvalidArgument within a round."""
        self._check_round_ended(doing)
        return self.synchronizer

    def check_idle(self, doing: str) -> None:
        if self._compressor is not None:
            raise InvalidArgument(
                f"{doing}(): every gradient travels as compression={self._compressor!r} makes it; give "
                "DistributedOptimizer codec= or plan= instead"
            )
        self._check_round_ended(doing)

    def _check_round_ended(self, doing: str) -> None:
        if self._handed_over or running_backward_pass() != -1:
            raise InvalidArgument(
                f"{doing}() was called while gradients are in flight; call it between steps, not within backward(), "
                "and after a backward() that failed call skip_batch() first"
            )

    def follow_horovod(self) -> None:
        """From now on a round leaves in `.grad` what Horovod leaves there: zeros where no rank had a gradient, and a
        sparse gradient for each parameter whose own gradient was sparse, with `sparse_as_dense`, too.
        """
        self._as_horovod = True

    def set_passes(self, passes: int) -> None:
        """From the next round on, one round has the gradients of `passes` backward passes."""
        self._passes = passes
        self._passes_done = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within this context gradients only accumulate on this rank."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def synchronize(self) -> None:
        """Runs one round, unless `.grad` is synchronised already."""
        self._check_open_round()
        if self._clean:
            return
        try:
            self._finish_round()
        except BaseException as error:
            self._note(error, "synchronize()")
            raise

    def skip(self) -> None:
        """Ends the round; gradients that this rank has not handed over are left out. Does nothing if `.grad` is
        synchronised already.
        """
        if self._clean:
            return
        if self._ranks > 1:
            for index, (gradient, version) in self._sent.items():
                if version_of(gradient) != version:
                    unfinished.end_job(
                        self._process,
                        f"changed the gradient of '{self._named[index][0]}' while it was being synchronised: call "
                        "skip_batch() before zero_grad()",
                    )
        sent = {index: gradient for index, (gradient, _) in self._sent.items()}
        for index, (_, parameter) in enumerate(self._named):
            if self._takes_part(index) and index not in self._handed_over:
                parameter.grad = None
        self._finish_round()
        for index, gradient in sent.items():
            self._named[index][1].grad = gradient  # zero_grad() may have set it to None

    def nested_pass(self) -> None:
        """See backward_passes.Listener."""
        outermost = self._running_pass() or self._begin_pass()
        is_first, outermost.has_nested = not outermost.has_nested, True
        in_flight = is_first and outermost.has_gradients
        del outermost  # a traceback from the call below would keep it alive
        if in_flight:
            self._wait_for_operations()  # the nested pass may add to a gradient in flight

    def backward_raised(self, error: BaseException) -> None:
        """See backward_passes.Listener."""
        self._note(error, "backward()")

    def _note(self, error: BaseException, where: str) -> None:
        if self._handed_over:
            self._raised = f"{unfinished.described(error)} in {where}"

    def update_raised(self, error: BaseException) -> None:
        """The optimizer raised while it used the gradients."""
        unfinished.update_raised(self._process, error, f"step() {self.synchronizer.steps}")

    def unfinished(self) -> str | None:
        """See unfinished.Step."""
        if not self._handed_over or self._ranks == 1:
            return None
        all_of_them = sum(self._takes_part(index) for index in range(len(self._named)))
        return (
            f"raised {self._raised or 'something in backward()'}, when {len(self._handed_over)} of {all_of_them} "
            f"gradients of step {self.synchronizer.steps} had been handed over"
        )

    def steps_taken(self) -> int:
        """See unfinished.Step."""
        return self.synchronizer.steps

    def _check_open_round(self) -> None:
        """Raises Mismatch, on all ranks, if an exception has left a round open."""
        if self._is_in_pass():
            return
        what = self.unfinished()
        if what is not None and not self._all_raised_alike():
            unfinished.end_job(
                self._process,
                f"{what}, caught it and went on, while the other ranks wait for the rest. Let such an exception end "
                "the rank, or call optimizer.skip_batch() where it is caught and then step(): the step is taken "
                "without the rest of this rank's gradients",
            )

    def _running_pass(self) -> BackwardPass | None:
        outermost = None if self._pass is None else self._pass()
        return None if outermost is None or outermost.ended else outermost

    def _begin_pass(self) -> BackwardPass:
        outermost = BackwardPass(self._on_backward_end)
        self._pass = weakref.ref(outermost)
        return outermost

    def _is_in_pass(self) -> bool:
        """Whether a backward pass runs that has given gradients to this object."""
        outermost = self._running_pass()
        return outermost is not None and outermost.has_gradients

    def stepped(self) -> None:
        """The optimizer has used the gradients: the next step needs a new round."""
        self._clean = False
        self.synchronizer.steps += 1
        self._passes_done = 0
        self.watching.stepped(self.synchronizer.steps)
        if self.planning is not None:
            self.planning.step_ended(self._round_s)
        self.synchronizer.follow_warm_up()

    def groups_are_safe(self) -> bool:
        """Whether every parameter has a dense gradient: a group waits for all of its members."""
        return not self._sparse

    def detach(self) -> None:
        """Removes the hooks: the optimizer is gone."""
        unfinished.tell(self._process, self.unfinished())
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
        if not self._is_in_pass():
            self._check_open_round()
            self._backward_started = self._core.trace_now()
            self._wait()  # for what an exception has left behind
        waits = self._is_for_the_end()
        self._clean = False
        if self._paused or self._passes_done + 1 < self._passes:
            return
        if index in self._handed_over:
            self._again.add(index)
            return
        if self.planning is not None:
            self.planning.released(index)
        if not waits:
            self._submit(index, parameter)

    def _is_for_the_end(self) -> bool:
        """Notes a gradient of the current backward pass; returns whether it is handed over when the pass has ended."""
        outermost = self._running_pass() or self._begin_pass()
        outermost.has_gradients = True
        untold = outermost.number != running_backward_pass() and not outermost.has_nested
        waits = untold or outermost.has_nested or self._waits_for_end
        del outermost  # a traceback from the call below would keep it alive
        if untold:
            self.nested_pass()  # a caller that is not torch.autograd.backward() has begun the pass
        return waits

    def _on_backward_end(self, outermost: BackwardPass) -> None:
        if not outermost.has_gradients:
            return
        self._waits_for_end = outermost.has_nested
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
            self._submit_sparse(index, parameter)
            self._handed_over.add(index)
            return
        if gradient is not None and gradient.layout != torch.strided and self._sparse_as_dense:
            self._made_dense[index] = gradient.sparse_dim()
            gradient = parameter.grad = gradient.to_dense()
        if gradient is not None and is_lazy(gradient):
            gradient = parameter.grad = resolved(gradient)
        if self._compressor is not None:
            self._submit_compressed(self._compressor, index, parameter)
            self._handed_over.add(index)
            return
        if gradient is None:
            output = torch.zeros_like(parameter)
            self._absent[index] = output
            self._handles[index] = self.synchronizer.submit_absent(index, output, self.synchronizer.steps)
            self._handed_over.add(index)
            return
        if is_dense(gradient) and gradient.is_contiguous() != parameter.is_contiguous():
            # Ranks combine elements in memory order: on every rank it must be the memory order of the parameter.
            gradient = parameter.grad = torch.empty_like(parameter).copy_(gradient)
        self.watching.before(self._named[index][0], gradient, self.synchronizer.steps)
        self._handles[index] = self.synchronizer.submit(index, gradient, self.synchronizer.steps)
        self._sent[index] = gradient, version_of(gradient)
        self._handed_over.add(index)

    def _all_raised_alike(self) -> bool:
        """Whether every rank has left its round open with the same gradients handed over, which it then completes."""
        self._left_open += 1
        key = f"round {self._left_open} left open of {self.synchronizer.name(0)}"
        handed_over = ",".join(map(str, sorted(self._handed_over))).encode()
        try:
            gathered = self.synchronizer.gather(key, handed_over, _PATIENCE)
        except Timeout:
            return False  # the other ranks wait for the rest of the round
        if any(other != handed_over for other in gathered):
            return False
        self._wait()
        return True

    def _takes_part(self, index: int) -> bool:
        """Whether the round has this parameter. A group waits for all of its members, frozen ones too."""
        return self._named[index][1].requires_grad or self.synchronizer.group(index) is not None

    def _is_sparse(self, index: int, gradient: torch.Tensor | None) -> bool:
        """Whether the gradient is sparse. Without a gradient: whether the parameter's last gradient was sparse."""
        if gradient is not None:
            if gradient.layout == torch.sparse_coo and not self._sparse_as_dense:
                self._sparse.add(index)
            else:
                self._sparse.discard(index)
        return index in self._sparse

    def _submit_sparse(self, index: int, parameter: torch.Tensor) -> None:
        if group := self.synchronizer.group(index):
            raise InvalidArgument(
                f"the gradient of '{self._named[index][0]}' is sparse, and the plan has it in group '{group}': plan it "
                "without a group, or give sparse_as_dense=True"
            )
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.sparse_coo_tensor(
                torch.empty(1, 0, dtype=torch.int64), parameter.new_empty(0, *parameter.shape[1:]), parameter.shape
            )
        options = self.synchronizer.options
        operation = sparse_allreduce_async(
            gradient * options.prescale_factor, self.synchronizer.name(index), options.op, self.process_set
        )
        self._operations[index] = operation.then(lambda combined: combined * options.postscale_factor)

    def _submit_compressed(self, compressor: Compressing, index: int, parameter: torch.Tensor) -> None:
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        values, context = compressor.compress(gradient)
        options = self.synchronizer.options
        operation = allreduce_async(
            values,
            name=self.synchronizer.name(index),
            op=options.op,
            prescale_factor=options.prescale_factor,
            postscale_factor=options.postscale_factor,
            process_set=self.process_set,
        )
        self._operations[index] = operation.then(lambda combined: compressor.decompress(combined, context))

    def _finish_round(self) -> None:
        self._attach()
        for index, (_, parameter) in enumerate(self._named):
            if self._takes_part(index) and (index not in self._handed_over or index in self._again):
                self._submit(index, parameter)
        with self.watching.waiting(self._named, self.synchronizer.steps):
            self._wait()
        self._passes_done = 0
        self._clean = True

    def _wait(self) -> None:
        """Waits for all operations, and ends the round. If one raises, the round stays open with the other
        operations."""
        self._wait_for_operations()
        self.synchronizer.end_step()
        self._handed_over.clear()
        self._again.clear()
        self._raised = ""
        if self._sparse_as_dense:
            self._make_sparse_again()

    def _wait_for_operations(self) -> None:
        leaves_zeros = self._as_horovod and self._ranks > 1
        for index, handle in list(self._handles.items()):
            try:
                any_values = self.synchronizer.wait(handle)
            except HipressError:
                del self._handles[index]  # the operation has ended
                raise
            del self._handles[index]
            if index in self._absent and (any_values or leaves_zeros) and self._named[index][1].requires_grad:
                self._named[index][1].grad = self._absent[index]
        for index in list(self._operations):
            self._named[index][1].grad = self._operations.pop(index).wait()
        self._absent.clear()
        self._sent.clear()

    def _make_sparse_again(self) -> None:
        for index, (_, parameter) in enumerate(self._named):
            wanted = self._takes_sparse_only or (self._as_horovod and index in self._made_dense)
            if wanted and parameter.grad is not None and parameter.grad.layout == torch.strided:
                parameter.grad = parameter.grad.to_sparse(self._made_dense.get(index, 1))
