# SPDX-License-Identifier: Apache-2.0
"""A list of tensors on which all ranks have agreed. Every framework's distributed optimizer is built on it.

An adapter describes its tensors once. In each step it gives the values and the list's handles to its own operators:

    tensors = TensorList([TensorDescription("w", "float32", 6, "[2, 3]")], SynchronizationOptions(codec="onebit"))
    operation = ...                            # its operator gives the core (tensors.handle(0), where the values are)
    any_values = tensors.wait(operation)       # unless the operator has the core call it back

After set_codec() or set_plan() an adapter must add a tensor's unsent residual to the tensor's next values, once:

    if (values := tensors.held_back(0)) is not None:
        ...                                    # add them to the tensor's values, in memory order, before they are sent
        tensors.sent_with(operation, 0, is_finite=lambda: ...)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.codec_advice import CodecAdvice
from hipress.adapter.held_back import HeldBack, Values
from hipress.adapter.lists.checks import check_names, check_plan, check_unique, keeps_states
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.lists.ways import way_of
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.reduce_ops import Average, ReduceOp
from hipress.errors import HipressError, InvalidArgument, NotInitialized, Unsupported
from hipress.log import logger
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.raw_tensors import say_once

if TYPE_CHECKING:
    from hipress import _core
    from hipress.adapter.warming_up import WarmingUp
    from hipress.secopa.plan.choice import Choice
    from hipress.secopa.plan.plan import Plan

#: The name of the list in errors.
_LIST = "the list of tensors"


@dataclass(frozen=True)
class SynchronizationOptions:
    """The options with which ranks combine and send tensors. They are the same on all ranks."""

    codec: str = "none"
    """A codec's name, possibly with options: "onebit", "onebit(error_feedback=false)"."""
    topology: str = "ps"
    """The topology of the tensors."""
    partitions: int = 0
    """Number of partitions of a tensor; 0: HiPress chooses it by the tensor's size."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """Smaller tensors travel raw: they are biases and norms, which gain nothing from a codec and lose most."""
    op: ReduceOp = Average
    prescale_factor: float = 1.0
    """Each rank multiplies its values by it before encoding."""
    postscale_factor: float = 1.0
    """HiPress multiplies the combined values by it."""
    codec_for: Mapping[str, str] = field(default_factory=dict)
    """Codecs of single tensors, by name; all other tensors get `codec`."""
    left_out: Collection[str] = ()
    """Names of tensors that travel raw as small ones do, unless `codec_for` or the plan has them."""
    process_set: ProcessSet = global_process_set
    """The ranks that synchronise them."""
    plan: Plan | None = None
    """The plan, in place of codec, topology, partitions, min_compress_bytes and codec_for."""
    advice: CodecAdvice = field(default_factory=CodecAdvice, repr=False, compare=False)
    """Warns of codecs that do not fit the optimizer."""

    def codecs(self) -> list[str]:
        """The codecs that tensors may travel with."""
        if self.plan is not None:
            return sorted({choice.codec for choice in self.plan.specs().values()})
        return [self.codec, *self.codec_for.values()]

    def for_some(self, names: Collection[str]) -> SynchronizationOptions:
        """The options of a list that has only the tensors with these names."""
        codec_for = {name: codec for name, codec in self.codec_for.items() if name in names}
        if self.plan is None:
            return replace(self, codec_for=codec_for)
        decisions = tuple(decision for decision in self.plan.decisions if decision.name in names)
        return replace(self, codec_for=codec_for, plan=self.plan.model_copy(update={"decisions": decisions}))


def _forget(process: runtime.Runtime, handles: list[int]) -> None:
    """Frees what the engine keeps of a list that has ended. After shutdown() there is nothing to free."""
    if runtime.is_initialized() and runtime.current() is process:
        with suppress(HipressError):  # an engine that has failed frees everything when it ends
            process.engine.forget(handles)


class TensorList:
    """A list of tensors that all ranks have agreed on, each synchronised at most once at a time.

    Arguments:
        tensors: the same on all ranks, except for their devices. Earlier tensors have a higher priority on the network,
            because the next forward pass needs them first.
        options: how ranks combine and send them.
        warming_up: the stages of a warm-up; with it the options are those of the stage that has `steps`.
        waits: the ranks agree in restart(), and until then the list is empty, see lists/restarting.py.

    Raises Mismatch, with the first difference, if the ranks' lists differ; Timeout if a rank does not make the list;
    DuplicateName, InvalidArgument, Unsupported.
    """

    #: Whether the end of the object frees what the engine keeps of its tensors. False: the adapter does it later.
    _frees_handles = True

    def __init__(
        self,
        tensors: Iterable[TensorDescription],
        options: SynchronizationOptions | None = None,
        warming_up: WarmingUp | None = None,
        *,
        waits: bool = False,
    ) -> None:
        options = SynchronizationOptions() if options is None else options
        #: Number of steps that the owner of the list has made. Saved states have it.
        self.steps = 0
        self._warming_up, self._stage = warming_up, 0
        if warming_up is not None:
            options = warming_up.options(0)
        self._first = options, warming_up
        self._tensors = list(tensors)
        self._process_set = options.process_set
        self._process_set.users.add(self)
        self._handles: list[int] = []
        self._own_names: list[str] = []
        self._options = options
        self._held_back = HeldBack()
        self._loss_scale = 1.0
        self._by_steps = False
        self._choices: Mapping[str, Choice] = {}
        self._freeing: weakref.finalize[..., TensorList] | None = None
        self._process = cast("runtime.Runtime", None)
        self._waits = waits
        check_unique([tensor.name for tensor in self._tensors])
        check_names(options.codec_for, [tensor.name for tensor in self._tensors])
        options.advice.warn(options.codecs())
        if not waits:
            self._join(options)
            if any(codec != "none" for codec in options.codecs()):
                say_once(runtime.rank(), len(self.exact_tensors), len(self))

    def _join(self, options: SynchronizationOptions) -> None:
        """Agrees on the tensors with the ranks of the current engine."""
        process = runtime.current()
        self._world = self._process_set.size()
        if options.plan is not None:
            check_plan(options.plan, self._tensors, self._world)
        self._process, self._engine = process, process.engine
        # A second model with the same names, or the same model wrapped again, gets separate tensors.
        self._own_names = [self._own_name(tensor.name) for tensor in self._tensors]
        self._options = options
        self._choices = {} if options.plan is None else options.plan.specs()
        self._handles = self._engine.agree(self._own_name(_LIST), self._specs(options))
        self._waits = False
        if self._frees_handles:
            self._freeing = weakref.finalize(self, _forget, process, self._handles)
            self._freeing.atexit = False
        if self._by_steps:
            self._engine.settle_by_steps(self._handles)

    def restart(self, tensors: Sequence[TensorDescription]) -> None:
        """Goes on with the current engine, in an elastic job, see hipress.elastic.

        `tensors` are those of the list, with the current engine's devices. What codecs have kept is not there. The
        options are those of the constructor, because a new rank has them; a plan for another number of ranks ends.
        Raises the errors of the constructor, and Unsupported for another process set than that of all ranks.
        """
        if self._process_set is not global_process_set:
            raise Unsupported(
                f"tensors that travel in {self._process_set} cannot go on with other ranks: make the optimizer anew "
                "after add_process_set()"
            )
        if self._freeing is not None:
            self._freeing.detach()
        self._tensors = list(tensors)
        self._held_back = HeldBack()
        self._loss_scale = 1.0
        (options, self._warming_up), self._stage = self._first, 0
        if options.plan is not None and options.plan.world != self._process_set.size():
            logger().info(f"the plan for {options.plan.world} ranks ends, because the job has other ranks now")
            options = replace(options, plan=None)
        self._join(options)

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the tensors that travel without a codec."""
        raw = self._engine.travel_raw(self._handles)
        named = {self.group(index) for index in range(len(self))}
        groups = {group: self._is_raw(group) for group in named if group is not None}
        exact = (groups.get(self.group(index) or "", alone) for index, alone in enumerate(raw))
        return tuple(tensor.name for tensor, is_exact in zip(self._tensors, exact, strict=True) if is_exact)

    def _is_raw(self, group: str) -> bool:
        """Whether the members of a group travel raw. The engine cannot say it of one: they travel as one tensor."""
        members = [tensor for index, tensor in enumerate(self._tensors) if self.group(index) == group]
        choice, core = self._choices[members[0].name], load_core()
        codec = core.create_codec(choice.codec)
        hosts = self._engine.hosts or [0] * runtime.size()
        used = {hosts[rank] for rank in self._process_set.ranks}
        crosses_network = len(used) > 1 if choice.topology.startswith("hierarchical") else self._world > 1
        # A row of values has no factors.
        if not crosses_network or codec.name == "none" or codec.low_rank is not None:
            return True
        count = sum(tensor.count for tensor in members)
        if codec.summed is not None:
            return bool(codec.max_encoded_bytes(count) >= 4 * count)
        how = {"codec": choice.codec, "partitions": choice.partitions}
        together = core.TensorSpec(group, dtype=members[0].dtype, count=count, **how)
        return all(raw for _, raw in core.planned_partitions(together, self._world))

    def extend(self, tensors: Iterable[TensorDescription]) -> None:
        """Appends tensors, which travel as the options say. All ranks call it with the same tensors.

        Tensors that the plan does not name travel raw. Raises the errors of the constructor; the list is then
        unchanged.
        """
        self._running_process()
        added = list(tensors)
        check_unique([tensor.name for tensor in (*self._tensors, *added)])
        before = len(self._tensors)
        self._tensors += added
        self._own_names += [self._own_name(tensor.name) for tensor in added]
        try:
            self._handles += self._engine.agree(self._own_name(_LIST), self._specs(self._options)[before:])
        except BaseException:
            del self._tensors[before:], self._own_names[before:]
            raise
        if self._by_steps:
            self._engine.settle_by_steps(self._handles)

    def progress(self) -> list[int]:
        """Numbers that all ranks have alike between the same steps."""
        return [self.steps]

    def continue_from(self, progress: Sequence[int]) -> None:
        """Goes on from the progress() of another rank."""
        (self.steps,) = progress

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def options(self) -> SynchronizationOptions:
        """The options since the last set_codec() or set_plan()."""
        return self._options

    @property
    def engine(self) -> _core.Engine:
        """The engine whose ranks have agreed on the tensors. Raises NotInitialized, see handle()."""
        self._running_process()
        return self._engine

    @property
    def process_set(self) -> ProcessSet:
        """The ranks that synchronise the tensors."""
        return self._process_set

    def gather(self, key: str, value: bytes, timeout: float | None = None) -> list[bytes]:
        """Small values of all ranks of the list, in rank order. Raises Timeout, PeerLost."""
        return self._engine.allgather(self._process_set.named(key), value, timeout, among=self._process_set.among)

    def process_set_removed(self) -> None:
        """See process_sets.User."""
        self._process = cast("runtime.Runtime", None)  # so that handle() has one comparison only

    def _ended(self) -> HipressError:
        if self._waits:
            return NotInitialized(
                "in an elastic job the ranks agree on gradients when all of them have come to their training function: "
                "train in a function with @hipress.torch.elastic.run"
            )
        if self._process is None:
            return InvalidArgument(
                "remove_process_set() has ended the process set in which these tensors travel: make a new optimizer, "
                "trainer, tape or kvstore with another one"
            )
        return NotInitialized(
            "the optimizer, trainer, tape or kvstore that uses these tensors was made before the last shutdown(), "
            "and init() has started another engine since: make a new one from the plain optimizer"
        )

    def _own_name(self, name: str) -> str:
        return self._process_set.named(self._process_set.numbered(name))

    def name(self, index: int) -> str:
        """The name of the tensor at `index` among the ranks; it is unique in this process."""
        return self._own_names[index]

    def handle(self, index: int) -> int:
        """The core's handle of the tensor at `index`; set_codec() and set_plan() change it. Raises NotInitialized."""
        if runtime.current() is not self._process:
            raise self._ended()
        return self._handles[index]

    def _running_process(self) -> runtime.Runtime:
        """The process of the list. Raises NotInitialized if the ranks agreed on the list before the last shutdown()."""
        if runtime.current() is not self._process:
            raise self._ended()
        return self._process

    def group(self, index: int) -> str | None:
        """The group of the tensor at `index`, or None. A group travels when all of its members are submitted."""
        choice = self._choices.get(self._tensors[index].name)
        return None if choice is None else choice.group

    def check_groups(self, present: Collection[int]) -> None:
        """Raises InvalidArgument if one member of a group is in `present` and another is not."""
        if not any(choice.group for choice in self._choices.values()):
            return
        groups = {self.group(index) for index in present} - {None}
        for index in range(len(self)):
            if self.group(index) in groups and index not in present:
                raise InvalidArgument(
                    f"'{self._tensors[index].name}' has no gradient, and its group '{self.group(index)}' in the plan "
                    "waits for it: plan it without a group"
                )

    @property
    def tensors(self) -> Sequence[TensorDescription]:
        """The descriptions of the list's tensors."""
        return self._tensors

    def as_saved(self) -> Sequence[TensorDescription]:
        """The descriptions with the tensors' names in checkpoints, which are valid in other processes, too."""
        return self._tensors

    def codec_of(self, index: int) -> str:
        """The codec of the tensor at `index`."""
        way = way_of(self._tensors[index].name, self._options, self._choices.get(self._tensors[index].name))
        codec: str = way.get("codec", "none")
        return codec

    def codec_with_options(self, index: int) -> str:
        """The codec of the tensor at `index`, with all options."""
        signature: str = load_core().create_codec(self.codec_of(index)).signature
        return signature

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs of all tensors, and the plan. All ranks call it while no operation is in flight.

        If the old and the new codec have a state of the same name, the new codec goes on with its values: residuals
        survive. A residual that the new codec does not have becomes the unsent residual, see held_back(); other states,
        such as a velocity, are lost. Nothing changes for tensors that keep their codec. A warm-up ends.

        Raises InvalidArgument, also if a tensor is in flight; Mismatch if the ranks' codecs differ (the old codecs
        stay); Timeout if a rank does not call it.
        """
        self._send_by(replace(self._options, codec=codec, codec_for=dict(codec_for or {}), plan=None))
        self._warming_up = None

    def knows_loss_scale(self) -> bool:
        """Whether what codecs keep gets the unit of the gradients. False: codecs that keep values are refused."""
        return True

    def travel_by(self, codec: str) -> None:
        """Replaces the codec of the tensors that have none of their own, see set_codec()."""
        self._send_by(replace(self._options, codec=codec))

    def set_plan(self, plan: Plan | None) -> None:
        """Replaces the plan; None: tensors travel as the options say. All ranks call it, see set_codec().

        No residual is lost, even if another rank or no rank encodes an element from now on.
        Raises the errors of set_codec(), and InvalidArgument with the first difference between the plan and these
        tensors.
        """
        self._send_by(replace(self._options, plan=plan))
        self._warming_up = None

    def follow_warm_up(self) -> None:
        """Takes the codecs of the stage that the warm-up has in step `steps`; after a resume that is any stage."""
        if self._warming_up is None:
            return
        stage = self._warming_up.stage_at(self.steps)
        if stage != self._stage:
            self._send_by(self._warming_up.options(stage))
            self._stage = stage

    def _send_by(self, options: SynchronizationOptions) -> None:
        self._running_process()
        listed = self._own_name(_LIST)
        self._check(options)
        agreed = self._engine.agree_anew(listed, self._handles, self._specs(options))
        self._handles[:] = [handle for handle, _ in agreed]
        if self._by_steps:
            self._engine.settle_by_steps(self._handles)
        self._options = options
        self._choices = {} if options.plan is None else options.plan.specs()
        for index, (_, values) in enumerate(agreed):
            if values is not None:
                self._held_back.keep(index, values)

    def _check(self, options: SynchronizationOptions) -> None:
        check_names(options.codec_for, [tensor.name for tensor in self._tensors])
        if options.plan is not None:
            check_plan(options.plan, self._tensors, self._world)
        options.advice.warn(options.codecs())

    def held_back(self, index: int) -> Values | None:
        """The unsent residual of the tensor at `index`, in memory order, to add to its next values; usually None."""
        return self._held_back.waiting_for(index)

    def replace_held_back(self, values: Mapping[int, Values]) -> None:
        """Replaces all unsent residuals, by index. Call it while no operation is in flight."""
        self._held_back.replace(dict(values))

    @property
    def loss_scale(self) -> float:
        """The factor of the gradients whose unit all kept values have; see set_loss_scale()."""
        return self._loss_scale

    def set_loss_scale(self, scale: float) -> None:
        """Says that the next values are gradients times `scale`, a loss scale.

        Multiplies residuals and every other value that was kept from earlier steps by `scale` / the last one, which is
        exact for powers of two. Every rank calls it between the same steps, with the same scale. From the first one on
        the owner of the list calls end_step(). Raises InvalidArgument if a tensor is in flight; NotInitialized.
        """
        if scale == self._loss_scale:
            return
        factor = scale / self._loss_scale
        self.settle_by_steps()
        self._engine.multiply_states(self._handles, factor)
        self._held_back.multiply(factor)
        self._loss_scale = scale

    def settle_by_steps(self) -> None:
        """From now on the owner of the list calls end_step() after each step. If one result of a step is not finite,
        the states of all codecs are those from before the step, because a loss scaler leaves out whole steps."""
        self._running_process()
        if not self._by_steps:
            self._engine.settle_by_steps(self._handles)
            self._by_steps = True

    def end_step(self) -> None:
        """All operations of a step have ended. It does nothing unless steps settle together."""
        if self._by_steps and self._handles:
            self._held_back.step_ended(counts=self._engine.end_step(self._handles[0]))

    def states_replaced(self) -> None:
        """Notes that all kept values have been replaced by values in the unit of the gradient."""
        self._loss_scale = 1.0

    def keeps_states(self) -> bool:
        """Whether a codec of these tensors keeps values from step to step."""
        return any(keeps_states(codec) for codec in self._options.codecs())

    def sent_with(self, operation: Hashable, index: int, is_finite: Callable[[], bool]) -> None:
        """Notes that `operation` carries the unsent residual of the tensor. `is_finite()` checks the result later."""
        self._held_back.sent_with(operation, index, is_finite)

    def arrived(self, operation: Hashable) -> None:
        """Notes that `operation` has succeeded. wait() calls it; an adapter without wait() calls it itself."""
        self._held_back.arrived(operation)

    def wait(self, operation: int) -> bool:
        """Waits for an operation, and returns whether any rank had values. If no rank had values, the output is
        unchanged.

        Raises the operation's error: PeerLost, Timeout, CorruptPayload.
        """
        absent = self._engine.wait(operation)
        self._held_back.arrived(operation, by_steps=self._by_steps)
        return not absent

    def _specs(self, options: SynchronizationOptions) -> list[_core.TensorSpec]:
        core = load_core()
        choices = {} if options.plan is None else options.plan.specs()
        return [
            core.TensorSpec(
                own_name,
                lasting_name=tensor.name,
                dtype=tensor.dtype,
                count=tensor.count,
                shape=tensor.shape,
                op=options.op.name,
                prescale=options.prescale_factor,
                postscale=options.postscale_factor,
                priority=-index,
                device=tensor.device,
                among=self._process_set.among,
                **way_of(tensor.name, options, choices.get(tensor.name)),
            )
            for index, (own_name, tensor) in enumerate(zip(self._own_names, self._tensors, strict=True))
        ]
