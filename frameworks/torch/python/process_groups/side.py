# SPDX-License-Identifier: Apache-2.0
"""Where an average over a process group computes: the processor, in threads. gpus/side.py has the same for GPUs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from hipress._library import load_core
from hipress.errors import HipressError
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.stage import Stage
from hipress.torch.scaling.units import HostUnit, Unit

if TYPE_CHECKING:
    from hipress._core import Codec, Device, Slot, SlotChanges, SlotPlan, SlotQueue, SlotStateTable, SummedTensor

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)
_core = load_core()  # once: several threads use it
#: Tensors as the core takes them: address, type and elements.
Values = tuple[int, str, int]


class Putting(Protocol[Given]):
    """A step of the work on batch after batch, in the order in which they are put."""

    def put(self, batch: Given, /) -> None:
        """Hands a batch over; returns at once."""

    def close(self) -> None:
        """Ends the step, when all batches are done."""


class Side:
    """The processor or a GPU: memory, codecs, and the order of the work.

    All work goes to the queue of the current stage. Stages overlap.
    """

    device: torch.device
    #: The same for the core.
    core: Device
    #: Why matrices cannot travel as factors here (low_rank.py); empty: they can.
    no_factors = ""

    @property
    def queue(self) -> SlotQueue:
        """The current stage's."""
        raise NotImplementedError

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """A step of the work."""
        raise NotImplementedError

    def at_once(self) -> contextlib.AbstractContextManager[None]:
        """Work within needs no stage: the caller does it, in the order of its own work."""
        return contextlib.nullcontext()

    def before_collective(self) -> None:
        """Called before a collective that reads the results of the current stage."""

    def unit(self) -> Unit:
        """Of what codecs keep there; at first it is the gradient."""
        raise NotImplementedError

    def plan(self, slots: Sequence[Slot], rank: int, world: int, whole: bool) -> Plan:
        """The computation of slots here."""
        return Plan(_core.SlotPlan(slots, rank, world, whole, self.core), self)

    def summed(self, name: str, codec: Codec, count: int, number: int) -> SummedTensor:
        """The computation of a tensor whose encoded values are added. Raises Unsupported."""
        made: SummedTensor = _core.SummedTensor(name, codec, count, number, self.core)
        return made

    def table(self) -> SlotStateTable:
        """A new table of codec states in the memory here."""
        made: SlotStateTable = _core.SlotStateTable(self.core)
        return made

    def changes(self, keeps_states: bool) -> SlotChanges:
        """What the averages of a step change, for one step after the other. `keeps_states`: there are states."""
        made: SlotChanges = _core.SlotChanges(self.core, keeps_states)
        return made

    def look(self, average: torch.Tensor, changes: SlotChanges) -> None:
        """The step of `changes` does not count if this average of it, which no plan has made, is not finite."""
        changes.look(self.queue, self.values(average))

    def write_verdict(self, place: torch.Tensor, changes: SlotChanges) -> None:
        """Writes into one float32 whether the step of `changes` does not count so far."""
        changes.write_verdict(self.queue, place.data_ptr())

    def read_verdicts(self, places: torch.Tensor, changes: SlotChanges) -> None:
        """The step of `changes` does not count if one of these float32 says so."""
        stride = places.stride(0) * places.element_size()
        changes.read_verdicts(self.queue, places.data_ptr(), stride, places.numel())

    def settle(self, changes: SlotChanges) -> bool:
        """Ends the step of `changes`; returns whether it is known not to count."""
        return changes.settle(self.queue)

    def after_all(self) -> None:
        """The current stage's next work begins after the work so far of all stages."""

    def values(self, tensor: torch.Tensor) -> Values:
        """A flat tensor as plans take it."""
        return tensor.data_ptr(), CORE_NAMES[tensor.dtype], tensor.numel()

    def memory(self, plan: Plan) -> tuple[torch.Tensor, torch.Tensor]:
        """New outward and inward memory for a plan."""
        outward = torch.empty(plan.outward_bytes, dtype=torch.uint8, device=self.device)
        inward = torch.empty(plan.inward_bytes, dtype=torch.uint8, device=self.device)
        plan.prepare(outward, inward)
        self.used_by_all(outward)
        self.used_by_all(inward)
        return outward, inward

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """All stages use the tensor, which the current one has made."""

    def settled(self) -> Any:
        """A mark of the current stage's work so far, for wait_for()."""

    def wait_for(self, mark: Any) -> None:
        """The current stage's next work begins after the mark."""

    def computed(self, worker: Plan | SummedTensor) -> None:
        """The worker's step is over here. Raises its error if it is known by now."""

    def future(self) -> torch.futures.Future[Any]:
        """A future that a stage completes, on a GPU with a tensor of the batch."""
        return torch.futures.Future()

    def synchronize(self) -> None:
        """Waits until all work is done."""

    def failure(self) -> HipressError | None:
        """An error of earlier work that became known later."""
        return None


class Plan:
    """A SlotPlan, whose work goes to the queue of the current stage."""

    def __init__(self, plan: SlotPlan, side: Side) -> None:
        self._plan, self._side = plan, side

    @property
    def outward_bytes(self) -> int:
        """See SlotPlan."""
        return self._plan.outward_bytes

    @property
    def inward_bytes(self) -> int:
        """See SlotPlan."""
        return self._plan.inward_bytes

    def prepare(self, outward: torch.Tensor, inward: torch.Tensor) -> None:
        """Clears new memory."""
        self._plan.prepare(self._side.queue, place(outward), place(inward))

    def encode(
        self,
        tensors: Sequence[Values],
        states: SlotStateTable,
        seed: int,
        step: int,
        outward: torch.Tensor,
        changed: SlotChanges,
    ) -> None:
        """See SlotPlan."""
        self._plan.encode(self._side.queue, tensors, states, seed, step, place(outward), changed)

    def average(
        self,
        tensors: Sequence[Values],
        states: SlotStateTable,
        seed: int,
        step: int,
        factor: float,
        inward: torch.Tensor,
        changed: SlotChanges,
    ) -> None:
        """See SlotPlan."""
        self._plan.average(self._side.queue, tensors, states, seed, step, factor, place(inward), changed)

    def decode(self, tensors: Sequence[Values], outward: torch.Tensor, changed: SlotChanges) -> None:
        """See SlotPlan."""
        self._plan.decode(self._side.queue, tensors, place(outward), changed)

    def average_whole(
        self,
        tensors: Sequence[Values],
        factor: float,
        outward: torch.Tensor,
        inward: torch.Tensor,
        changed: SlotChanges,
    ) -> None:
        """See SlotPlan."""
        self._plan.average_whole(self._side.queue, tensors, factor, place(outward), place(inward), changed)

    def check(self, changed: SlotChanges) -> None:
        """The end of a step: asks for its errors; raise_error() has them once the work is done."""
        self._plan.check(self._side.queue, changed)

    def raise_error(self) -> None:
        """Raises CorruptPayload or the device's error if one is known by now."""
        self._plan.raise_error()


class HostSide(Side):
    """The processor. Each stage is a thread, and all of its calls return when they are done."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.core = _core.HostDevice()
        self._threads = threading.local()

    @property
    def queue(self) -> SlotQueue:
        """See Side: a thread's own."""
        if not hasattr(self._threads, "queue"):
            self._threads.queue = _core.SlotQueue(self.core)
        queue: SlotQueue = self._threads.queue
        return queue

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """See Side."""
        return Stage(name, work)

    def unit(self) -> Unit:
        """See Side."""
        return HostUnit(self)

    def computed(self, worker: Plan | SummedTensor) -> None:
        """See Side."""
        worker.raise_error()


def place(memory: torch.Tensor) -> tuple[int, int]:
    """Memory as the core takes it: address and bytes."""
    return memory.data_ptr(), memory.numel() * memory.element_size()
