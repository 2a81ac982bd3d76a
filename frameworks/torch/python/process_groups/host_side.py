# SPDX-License-Identifier: Apache-2.0
"""Where an average over a process group computes: the processor, in threads. gpus/side.py has the same for GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import HipressError
from hipress.torch.process_groups.stage import Stage
from hipress.torch.scaling.units import HostUnit, Unit

if TYPE_CHECKING:
    from hipress._core import Slot, SlotChanges, SlotPlan, SlotStateTable

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)
_core = load_core()  # once: several threads use it


class Putting(Protocol[Given]):
    """A step of the work on batch after batch, in the order in which they are put."""

    def put(self, batch: Given, /) -> None:
        """Hands a batch over; returns at once."""

    def close(self) -> None:
        """Ends the step, when all batches are done."""


class Side(Protocol):
    """The processor or a GPU: memory, codecs, and the order of the work."""

    device: torch.device
    #: The bytes of a slot are a multiple of this.
    alignment: int
    #: Why matrices cannot travel as factors here (low_rank.py); empty: they can.
    no_factors: str

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """A step of the work. Different stages overlap."""

    def at_once(self) -> contextlib.AbstractContextManager[None]:
        """Work within needs no stage: the caller does it, in the order of its own work."""

    def before_collective(self) -> None:
        """Called before a collective that reads the results of the current stage."""

    def plan(self, slots: Sequence[Slot], rank: int, world: int, whole: bool) -> SlotPlan:
        """The computation of slots here."""

    def unit(self) -> Unit:
        """Of what codecs keep there; at first it is the gradient."""

    def table(self) -> SlotStateTable:
        """A new table of codec states in the memory here."""

    def changes(self, keeps_states: bool) -> Any:
        """What the averages of a step change, for one step after the other. `keeps_states`: there are states."""

    def look(self, average: torch.Tensor, changes: Any) -> None:
        """The step of `changes` does not count if this average of it, which no plan has made, is not finite."""

    def write_verdict(self, place: torch.Tensor, changes: Any) -> None:
        """Writes into one float32 whether the step of `changes` does not count so far."""

    def read_verdicts(self, places: torch.Tensor, changes: Any) -> None:
        """The step of `changes` does not count if one of these float32 says so."""

    def after_all(self) -> None:
        """The current stage's next work begins after the work so far of all stages."""

    def settle(self, changes: Any) -> bool:
        """Ends the step of `changes`; returns whether it is known not to count."""

    def values(self, tensor: torch.Tensor) -> Any:
        """A flat tensor as plans take it."""

    def memory(self, plan: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """New outward and inward memory for a plan."""

    def view(self, memory: torch.Tensor) -> Any:
        """Outward or inward memory as a plan takes it."""

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """All stages use the tensor, which the current one has made."""

    def settled(self) -> Any:
        """A mark of the current stage's work so far, for wait_for()."""

    def wait_for(self, mark: Any) -> None:
        """The current stage's next work begins after the mark."""

    def computed(self, plan: Any, changes: Any) -> None:
        """The current stage has computed all of a plan's step."""

    def future(self) -> torch.futures.Future[Any]:
        """A future that a stage completes, on a GPU with a tensor of the batch."""

    def synchronize(self) -> None:
        """Waits until all work is done."""

    def failure(self) -> HipressError | None:
        """An error of earlier work that became known later."""


class HostSide:
    """The processor. Each stage is a thread, and all of its calls return when they are done."""

    device = torch.device("cpu")
    alignment = 1
    no_factors = ""

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """See Side."""
        return Stage(name, work)

    def at_once(self) -> contextlib.AbstractContextManager[None]:
        """See Side."""
        return contextlib.nullcontext()

    def before_collective(self) -> None:
        """See Side."""

    def plan(self, slots: Sequence[Slot], rank: int, world: int, whole: bool) -> SlotPlan:
        """See Side."""
        made: SlotPlan = _core.SlotPlan(slots, rank, world, whole)
        return made

    def table(self) -> SlotStateTable:
        """See Side."""
        made: SlotStateTable = _core.SlotStateTable()
        return made

    def unit(self) -> Unit:
        """See Side."""
        return HostUnit()

    def changes(self, keeps_states: bool) -> SlotChanges:
        """See Side."""
        made: SlotChanges = _core.SlotChanges(keeps_states)
        return made

    def look(self, average: torch.Tensor, changes: SlotChanges) -> None:
        """See Side."""
        if changes.keeps_states and not _core.are_finite(array_of(average.detach().view(-1))):
            changes.discard()

    def write_verdict(self, place: torch.Tensor, changes: SlotChanges) -> None:
        """See Side."""
        place.fill_(changes.discarded)

    def read_verdicts(self, places: torch.Tensor, changes: SlotChanges) -> None:
        """See Side."""
        if places.any():
            changes.discard()

    def after_all(self) -> None:
        """See Side."""

    def settle(self, changes: SlotChanges) -> bool:
        """See Side."""
        return changes.settle()

    def values(self, tensor: torch.Tensor) -> Any:
        """See Side."""
        return array_of(tensor)

    def memory(self, plan: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """See Side."""
        return torch.empty(plan.outward_bytes, dtype=torch.uint8), torch.empty(plan.inward_bytes, dtype=torch.uint8)

    def view(self, memory: torch.Tensor) -> Any:
        """See Side."""
        return memory.numpy()

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """See Side."""

    def settled(self) -> Any:
        """See Side."""
        return None

    def wait_for(self, mark: Any) -> None:
        """See Side."""

    def computed(self, plan: Any, changes: Any) -> None:
        """See Side."""

    def future(self) -> torch.futures.Future[Any]:
        """See Side."""
        return torch.futures.Future()

    def synchronize(self) -> None:
        """See Side."""

    def failure(self) -> HipressError | None:
        """See Side."""
        return None


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """The memory of a flat tensor, as the core takes it; int16 stands for bfloat16, which NumPy does not have."""
    array: NDArray[Any] = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array
