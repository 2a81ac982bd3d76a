# SPDX-License-Identifier: Apache-2.0
"""Where an average over a process group computes: the processor, in threads. gpus/side.py has the same for GPUs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch

from hipress._library import load_core
from hipress.errors import HipressError
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.stage import Stage
from hipress.torch.scaling.units import HostUnit, Unit

if TYPE_CHECKING:
    from hipress._core import (
        Codec,
        Device,
        SlotChanges,
        SlotProgram,
        SlotQueue,
        SlotStateTable,
        SlotTensors,
        SummedTensor,
    )

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

    def runs(self, program: SlotProgram) -> Runs:
        """The computation of a program here. Raises Unsupported."""
        return Runs(program, self)

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

    def settle(self, changes: SlotChanges) -> bool:
        """Ends the step of `changes`; returns whether it is known not to count."""
        return changes.settle(self.queue)

    def after_all(self) -> None:
        """The current stage's next work begins after the work so far of all stages."""

    def values(self, tensor: torch.Tensor) -> Values:
        """A tensor of real numbers as the core takes it. Its values lie in memory without gaps."""
        return tensor.data_ptr(), CORE_NAMES[tensor.dtype], tensor.numel()

    def tensors(self, values: Sequence[Values]) -> SlotTensors:
        """The tensors of a batch, for all runs."""
        made: SlotTensors = _core.SlotTensors(values)
        return made

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """All stages use the tensor, which the current one has made."""

    def settled(self) -> Any:
        """A mark of the current stage's work so far, for wait_for()."""

    def wait_for(self, mark: Any) -> None:
        """The current stage's next work begins after the mark; None: after nothing."""

    def is_past(self, mark: Any) -> bool:
        """Whether the work before the mark is done."""
        return True

    def computed(self, worker: Runs | SummedTensor) -> None:
        """The worker's step is over here. Raises its error if it is known by now."""

    def future(self) -> torch.futures.Future[Any]:
        """A future that a stage completes, on a GPU with a tensor of the batch."""
        return torch.futures.Future()

    def synchronize(self) -> None:
        """Waits until all work is done."""

    def failure(self) -> HipressError | None:
        """An error of earlier work that became known later."""
        return None

    def ended(self) -> None:
        """What has used the side is about to go: no call can raise the error of its last work."""


@dataclass
class Contribution:
    """What a rank contributes to an average, for all runs of it."""

    tensors: SlotTensors
    states: SlotStateTable
    seed: int
    step: int
    factor: float
    changes: SlotChanges


class Runs:
    """The runs of a program, whose work goes to the queue of the current stage."""

    def __init__(self, program: SlotProgram, side: Side) -> None:
        self.program = program
        self._executor, self._side = _core.SlotExecutor(program, side.core), side

    def prepare(self, arena: torch.Tensor) -> None:
        """Clears new memory."""
        self._executor.prepare(self._side.queue, place(arena))

    def run(self, number: int, given: Contribution, arena: torch.Tensor) -> None:
        """See SlotExecutor."""
        self._executor.run(
            number,
            self._side.queue,
            given.tensors,
            given.states,
            given.seed,
            given.step,
            given.factor,
            place(arena),
            given.changes,
        )

    def check(self, changed: SlotChanges) -> None:
        """The end of a step: asks for its errors; raise_error() has them once the work is done."""
        self._executor.check(self._side.queue, changed)

    def raise_error(self) -> None:
        """Raises CorruptPayload or the device's error if one is known by now."""
        self._executor.raise_error()


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

    def computed(self, worker: Runs | SummedTensor) -> None:
        """See Side."""
        worker.raise_error()


def place(memory: torch.Tensor) -> tuple[int, int]:
    """Memory as the core takes it: address and bytes."""
    return memory.data_ptr(), memory.numel() * memory.element_size()
