# SPDX-License-Identifier: Apache-2.0
"""A process group over Gloo, and over NCCL where there is a GPU: it averages gradients compressed, and passes all other
calls on."""

from __future__ import annotations

import contextlib
import datetime
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store

from hipress.errors import HipressError, InvalidArgument, NotInitialized, Unsupported
from hipress.torch.installed.private_names import COLLECTIVES, carried_by, nccl_options, nccl_together
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import CORE_NAMES, TensorShape
from hipress.torch.process_groups.followed import Followed
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.named_gradients import named
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.ranks import consecutive
from hipress.torch.process_groups.sides import side_for
from hipress.torch.process_groups.states.open_step import backward_pass
from hipress.torch.process_groups.unmet import Unmet
from hipress.torch.states.place import PLACE, check_place
from hipress.torch.states.state_sum import check_sum, with_sum

_CPU = torch.device("cpu")
#: What codecs, which take float32, can represent.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class CompressingGroup(dist.ProcessGroup):
    """Compresses all-reduces of gradients: those within `gradients()`, and those of FSDP2 after `compress_hybrid()`.

    They have sum or average, and one dense tensor of float32, float16 or bfloat16 on the CPU or an NVIDIA GPU. All
    other calls are Gloo's or NCCL's own, and so are gradients that travel without a codec.

    All gradients are on one device. If all of them are on another one from some step on, their states move.

    Arguments:
        store: of the group, as torch gives it to a backend.
        rank: of this process in the group.
        size: how many ranks the group has.
        timeout: of the group's collectives.
        options: the same on all ranks.

    Raises InvalidArgument; Mismatch, on all ranks, if their options differ.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: datetime.timedelta, options: GroupOptions) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # the only form that torch takes for subclasses
        # Before the ranks connect: one that has refused its options closes connections that others still make.
        options.check((), whole=True)
        options.check_sums(size)
        if options.is_hierarchical:
            consecutive(size, options.ranks_per_host)
        self._store, self._timeout = store, timeout
        self._made = 0
        self._groups: list[weakref.ref[Any]] = []  # that it has made
        # What this class does not override goes to these backends.
        self._inner = self._backend_of(range(size), _CPU)
        self._inner_of_gpus: Group = None
        carrying = {_CPU: self._inner}
        if dist.is_nccl_available() and torch.cuda.is_available():
            self._inner_of_gpus = carrying[torch.device("cuda")] = self._backend_of(range(size), torch.device("cuda"))
        carried_by(self, carrying)
        self._options, self._keeps_states = options, options.keeps_states()
        self._device = _CPU
        self._average: GroupAverage | None = self._average_on(_CPU)
        self._sent_from_other_devices = 0
        self._declared: dict[str, TensorShape] = {}
        #: Of each gradient, how often it was averaged.
        self._steps: dict[str, int] = {}
        #: The number of the next step, for gradients that are declared from now on. The same on all ranks.
        self.first_step = 0
        #: Called when gradients have been declared, before their first average.
        self.after_declaring: Callable[[CompressingGroup], None] | None = None
        #: The gradients that were compressed since the states moved to this device.
        self._here: set[str] = set()
        self._unmet = Unmet(self, options.codec) if self._running().compresses else None
        #: Gradients may have to send what an earlier job held back, also if no codec is chosen.
        self._has_loaded = False
        self._exact: Followed | None = None

    def _backend_of(self, ranks: Sequence[int], device: torch.device) -> Group:
        self._made += 1
        store = PrefixStore(f"{self._made} {','.join(map(str, ranks))}/", self._store)
        place = list(ranks).index(self.rank())
        if device.type == "cpu":
            made: Group = dist.ProcessGroupGloo(store, place, len(ranks), self._timeout)
        else:
            made = dist.ProcessGroupNCCL(store, place, len(ranks), nccl_options(self._timeout))
        self._groups.append(weakref.ref(made))
        return made

    def _inner_on(self, device: torch.device) -> Group:
        return self._inner if device.type == "cpu" or self._inner_of_gpus is None else self._inner_of_gpus

    def _average_on(self, device: torch.device) -> GroupAverage:
        """All ranks call it in one order."""
        return GroupAverage(
            {},
            self._inner_on(device),
            self._options,
            new_group=lambda ranks: self._backend_of(ranks, device),
            side=side_for({"all-reduces": device}),
        )

    def _move(self, device: torch.device, names: Sequence[str]) -> None:
        """From here on gradients on this device are compressed. All ranks call it in one order."""
        if self._here.isdisjoint(names) and self._here:
            raise Unsupported(
                f"process group 'hipress' compresses gradients on {self._device}, and now gets '{names[0]}' on "
                f"{device}; give gradients on each device a group of their own"
            )
        average = self._average_on(device)
        if self._declared:
            average.declare(self._declared)
            average.load_state_dict(self._running().state_dict())
        self._sent_from_other_devices += self._running().sent_bytes
        self._average, self._device = average, device
        self._here.clear()

    def getBackendName(self) -> str:  # noqa: N802
        """Torch's trampoline asks for it."""
        return "hipress"

    @property
    def options(self) -> GroupOptions:
        """How gradients are compressed."""
        return self._options

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes; exact calls are not counted."""
        return self._sent_from_other_devices + (0 if self._average is None else self._average.sent_bytes)

    def allreduce(self, tensors: Any, opts: Any = None, timeout: datetime.timedelta | None = None) -> Any:
        """See the class. Arguments: as torch has them, in each of its three forms."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        chosen = opts if isinstance(opts, dist.AllreduceOptions) else _options(opts, timeout)
        context = named()
        if context is None or not self._can_compress(given, chosen.reduceOp):
            return self._pass_on(given, chosen)
        (tensor,) = given
        shapes = context.shapes(tensor, id(self), self._keeps_states)
        names = tuple(shapes)
        self.declare(shapes)
        step = max(self._steps[name] for name in names)
        if context.before is not None:
            context.before(step)
        self._steps.update(dict.fromkeys(names, step + 1))
        parts = tensor.view(-1).split([shape.count for shape in shapes.values()])
        named_parts = list(zip(names, parts, strict=True))
        exact = self._running().are_exact(names, step)
        if exact:
            self._running().count_exact(named_parts, step)
        if exact and not self._running().owes(names):
            return self._pass_on(given, chosen)
        if tensor.device != self._device:
            self._move(tensor.device, names)
        self._here.update(names)
        average = chosen.reduceOp == dist.ReduceOp.AVG
        of = backward_pass() if context.step is None else context.step
        if exact:
            ended = self._running().another(named_parts, of, 1 / self.size() if average else 1.0)
            work = self._inner_on(tensor.device).allreduce(given, chosen)
            return _Work(self._followed().future(work, tensor, ended), given)
        return _Work(self._running().start(named_parts, step, average=average, key=of), given)

    def _followed(self) -> Followed:
        if self._exact is None:
            self._exact = Followed("hipress exact")
        return self._exact

    def barrier(  # type: ignore[override]  # torch has two forms
        self, opts: Any = None, timeout: datetime.timedelta | None = None
    ) -> Any:
        """Gloo's, or NCCL's if the options name a GPU. See _passed_on()."""
        if isinstance(opts, datetime.timedelta):
            opts, timeout = None, opts
        chosen = dist.BarrierOptions() if opts is None else opts
        if timeout is not None:
            chosen.timeout = timeout
        return self._inner_on(chosen.device or _CPU).barrier(chosen)

    def _pass_on(self, tensors: list[torch.Tensor], options: Any) -> Any:
        if self._unmet is not None:
            self._unmet.passed_on(tensors)
        return self._inner_on(tensors[0].device if tensors else _CPU).allreduce(tensors, options)

    def _can_compress(self, tensors: list[torch.Tensor], op: Any) -> bool:
        # Not `in`: of a ReduceOp and its value only the first knows how to compare.
        if len(tensors) != 1 or not (op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG):
            return False
        tensor = tensors[0]
        return (
            (self._unmet is not None or self._has_loaded)
            and (tensor.device.type == "cpu" or (tensor.device.type == "cuda" and self._inner_of_gpus is not None))
            and tensor.layout == torch.strided
            and tensor.dtype in _DTYPES
            and tensor.is_contiguous()
            and tensor.numel() > 0
        )

    def declare(self, shapes: Mapping[str, TensorShape]) -> None:
        """Gradients that the group will average: all ranks call it with the same ones, so that their first all-reduces
        have nothing to compare. Raises InvalidArgument if one has another shape now; Mismatch."""
        if self._unmet is not None:
            self._unmet.met()
        for name, shape in shapes.items():
            before = self._declared.get(name, shape)
            if before.count != shape.count:
                raise InvalidArgument(
                    f"gradient '{name}' has {shape.count} elements, and had {before.count}: what error feedback keeps "
                    "belongs to a gradient of one size, so give other tensors other names, or average tensors of "
                    "changing sizes outside gradients(), which is exact"
                )
        new = {name: shape for name, shape in shapes.items() if name not in self._declared}
        if new:
            self._running().declare(new)
            self._declared.update(new)
            self._steps.update(dict.fromkeys(new, self.first_step))
            if self.after_declaring is not None:
                self.after_declaring(self)

    def _running(self) -> GroupAverage:
        if self._average is None:
            raise NotInitialized("this process group 'hipress' was closed: call state_dict() before close()")
        return self._average

    def close(self) -> None:
        """Ends the threads of the compressed averages, and frees their groups and states.

        All ranks call it, between two steps, or destroy the group. From then on all calls are Gloo's or NCCL's own.
        """
        average, self._average = self._average, None
        self._unmet, self._has_loaded = None, False
        if self._exact is not None:
            self._exact.close()
        if average is not None:
            self._sent_from_other_devices += average.sent_bytes
            average.close()

    def leave(self, *, counted: bool) -> dict[str, Any]:
        """Closes the group; returns what codecs remember, for carry() of another one.

        `counted`: whether the last step counts. If not, the states are those of before it.
        """
        if self._average is None:
            return {}
        try:
            states = self.kept(counted=counted)
        except HipressError:  # of the last step, on a GPU
            states = self.kept()
        with contextlib.suppress(HipressError):
            self.close()
        return states

    def carry(self, states: Mapping[str, Any]) -> None:
        """Goes on from the states that leave() returned on this rank in a group of other ranks, or kept() here. No rank
        waits for another one. All averages of these gradients are sums. Between two steps only."""
        self._running().carry(states)
        self._has_loaded = True

    def kept(self, *, counted: bool = True) -> dict[str, Any]:
        """What codecs remember, without anything else. Between two steps only. `counted`: as of leave()."""
        if not counted:
            self._running().steps.discard()
        return self._running().state_dict()

    @property
    def declared(self) -> Collection[str]:
        """The names of the gradients that the group averages."""
        return self._declared.keys()

    def raise_error(self) -> None:
        """Raises what made an average fail, if it is known by now."""
        if self._average is not None:
            self._average.raise_error()

    def abort(self) -> None:
        """Ends this rank's collectives over NCCL at once, compressed averages included, with an error.

        Gloo has no such end: averages on the CPU, as Gloo's own calls, end with the group's timeout (TransportError).
        """
        alive = [group for each in self._groups if (group := each()) is not None]
        # As torch does it: otherwise the end of one communicator may wait for that of another one.
        with nccl_together(self._inner_of_gpus):
            for group in reversed(alive):
                group.abort()

    def shutdown(self) -> None:
        """torch.distributed.destroy_process_group() calls it."""
        self.close()
        super().shutdown()

    def state_dict(self) -> dict[str, Any]:
        """What codecs remember on this rank, and the number of steps of each gradient. Between two steps only."""
        tensors = {name: [each.count, CORE_NAMES[each.dtype], each.dimensions] for name, each in self._declared.items()}
        state = {"steps": dict(self._steps), "tensors": tensors, PLACE: [self.rank(), self.size()]}
        return with_sum({**state, "states": self._running().state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() of the same rank, of as many ranks, returned. All ranks call it. Raises
        InvalidArgument."""
        self._begin_loading(state, alone=True)
        self._running().load_state_dict(state["states"])
        self._go_on_after(state)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from what state_dict() of all ranks of an earlier group returned, in rank order; it may have had
        another number of ranks. All ranks call it. Raises InvalidArgument."""
        if not saved:
            raise InvalidArgument("load_states_of() takes a list with the states of all ranks, at least one")
        for each in saved:
            self._begin_loading(each, alone=False)
        self._running().load_states_of([each["states"] for each in saved])
        self._go_on_after(saved[0])

    def _begin_loading(self, state: Mapping[str, Any], *, alone: bool) -> None:
        if not isinstance(state.get("steps"), Mapping):
            raise InvalidArgument(
                "this is no state_dict() of a group of the backend 'hipress', or of an earlier version, in which "
                "gradients had no names"
            )
        check_sum(state)
        dtypes = {name: dtype for dtype, name in CORE_NAMES.items()}
        self.declare(
            {
                name: TensorShape(int(count), dtypes[dtype], int(dimensions))
                for name, (count, dtype, dimensions) in state["tensors"].items()
            }
        )
        if alone:  # after what all ranks do together
            check_place(state, [self.rank(), self.size()])

    def _go_on_after(self, state: Mapping[str, Any]) -> None:
        self._has_loaded = True
        self._steps.update(dict.fromkeys(self._steps, 0))  # also of gradients that the saved job did not have yet
        self._steps.update({name: int(step) for name, step in state["steps"].items()})


def _passed_on(name: str) -> Callable[..., Any]:
    """The method of a group that calls Gloo's or NCCL's own.

    torch does that, too, for methods that a group in Python does not have. But from 2.14 on it then holds Python's lock
    while it waits for a lock of Gloo, and a thread of Gloo that ends an earlier call waits for Python's with that lock
    held. Calls of a backend release Python's lock.
    """

    def call(self: CompressingGroup, *arguments: Any, **options: Any) -> Any:
        tensor = _first_tensor([*arguments, *options.values()])
        return getattr(self._inner_on(_CPU if tensor is None else tensor.device), name)(*arguments, **options)

    return call


def _first_tensor(values: Any) -> torch.Tensor | None:
    for each in values:
        found = (
            each if isinstance(each, torch.Tensor) else _first_tensor(each) if isinstance(each, list | tuple) else None
        )
        if found is not None:
            return found
    return None


for _name in COLLECTIVES:
    if hasattr(dist.ProcessGroup, _name) and hasattr(dist.ProcessGroupGloo, _name):
        setattr(CompressingGroup, _name, _passed_on(_name))


class _Work(dist.Work):
    """An average that has started."""

    def __init__(self, done: torch.futures.Future[Any], tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._done = done
        self._future: torch.futures.Future[list[torch.Tensor]] = done.then(lambda each: _result(each, tensors))

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Until the average is there, or Gloo's timeout is over. Raises what made it fail."""
        self._done.wait()  # which raises errors with their types
        # What torchft then adds to the result of get_future() has to run at once.
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """Gets the tensors."""
        return self._future


def _result(done: torch.futures.Future[Any], tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    done.value()
    return tensors


def _options(op: Any, timeout: datetime.timedelta | None) -> Any:
    options = dist.AllreduceOptions()
    if op is not None:
        options.reduceOp = op
    if timeout is not None:
        options.timeout = timeout
    return options
