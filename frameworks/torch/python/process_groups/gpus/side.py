# SPDX-License-Identifier: Apache-2.0
"""A GPU as the place where an average over a process group computes, for groups of GPU tensors (NCCL).

Nothing here waits for the GPU. Each stage has a stream of its own: encoding a batch overlaps with the average of an
earlier one. `Work.wait()` of a collective makes the stage's stream wait, and a collective starts after the work that is
on the current stream, which is the stage's. Bytes never pass through the processor's memory.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from hipress._library import load_core
from hipress.errors import HipressError
from hipress.gpus import gpu
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.gpus.endings import tell_at_exit
from hipress.torch.process_groups.host_side import Putting
from hipress.torch.scaling.units import GpuUnit, Unit

if TYPE_CHECKING:
    from hipress._core import Device, DeviceQueue, DeviceSlotChanges, DeviceSlotPlan, Slot, SlotStateTable

Item = TypeVar("Item")
_core = load_core()
#: Longest wait of synchronize(), which only checkpoints need (seconds).
_LONGEST_WORK = 300.0


class GpuPlan:
    """A DeviceSlotPlan with the calls of a SlotPlan; its work goes to the stream of the current stage."""

    def __init__(self, slots: Sequence[Slot], rank: int, world: int, whole: bool, side: GpuSide) -> None:
        self._plan: DeviceSlotPlan = _core.DeviceSlotPlan(slots, rank, world, whole, side.core)
        self._side = side

    @property
    def outward_bytes(self) -> int:
        """As of SlotPlan."""
        return self._plan.outward_bytes

    @property
    def inward_bytes(self) -> int:
        """As of SlotPlan."""
        return self._plan.inward_bytes

    def block_bytes(self, owner: int) -> int:
        """As of SlotPlan."""
        return self._plan.block_bytes(owner)

    def prepare(self, outward: torch.Tensor, inward: torch.Tensor) -> None:
        """Clears new memory."""
        self._plan.prepare(self._side.queue, place(outward), place(inward))

    def encode(
        self, tensors: Any, states: SlotStateTable, seed: int, step: int, outward: Any, changed: DeviceSlotChanges
    ) -> None:
        """As of SlotPlan."""
        self._plan.encode(self._side.queue, tensors, states, seed, step, place(outward), changed)

    def average(
        self, tensors: Any, states: SlotStateTable, seed: int, step: int, factor: float, inward: Any, changed: Any
    ) -> None:
        """As of SlotPlan."""
        self._plan.average(self._side.queue, tensors, states, seed, step, factor, place(inward), changed)

    def decode(self, tensors: Any, outward: Any, changed: DeviceSlotChanges) -> None:
        """As of SlotPlan."""
        self._plan.decode(self._side.queue, tensors, place(outward), changed)

    def average_whole(self, tensors: Any, factor: float, outward: Any, inward: Any, changed: DeviceSlotChanges) -> None:
        """As of SlotPlan."""
        self._plan.average_whole(self._side.queue, tensors, factor, place(outward), place(inward), changed)

    def check(self, changed: DeviceSlotChanges) -> None:
        """Asks the GPU for the errors of the step; raise_error() has them once the GPU is there."""
        self._plan.check(self._side.queue, changed)

    def raise_error(self) -> None:
        """Raises CorruptPayload or the device's error if one is known by now."""
        self._plan.raise_error()


class _StreamStage:
    """A stage that puts its work on a stream of its own, in the caller's thread."""

    def __init__(self, side: GpuSide, number: int, work: Callable[[Any], None]) -> None:
        self._side, self._number, self._work = weakref.ref(side), number, work

    def put(self, batch: Any) -> None:
        side = self._side()
        assert side is not None
        with side.on(self._number):
            self._work(batch)

    def close(self) -> None:
        """See Putting. The stream goes with the side."""


class GpuSide:
    """A GPU, the streams of HiPress on it, and its codecs."""

    #: Whether failure() has returned an error.
    told = False
    alignment = _core.DEVICE_SLOT_ALIGNMENT
    no_factors = "HiPress multiplies matrices on the processor only; use another codec"

    def __init__(self, device: torch.device) -> None:
        """Raises Unsupported, which names what is missing: the driver, the GPU or NVRTC."""
        self.device = device
        self.core: Device = gpu(device.index or 0)
        self._streams: list[torch.cuda.Stream] = []
        self._queues: list[DeviceQueue] = []
        #: The callers' streams that at_once() has used: numbers of their queues, by handle.
        self._callers: dict[int, int] = {}
        self._current = 0
        self._plans: weakref.WeakSet[Any] = weakref.WeakSet()

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """See Side."""
        stream, handle = self._new_stream()
        self._streams.append(stream)
        self._queues.append(_core.DeviceQueue(self.core, handle))
        return _StreamStage(self, len(self._queues) - 1, work)

    @contextlib.contextmanager
    def on(self, stage: int) -> Iterator[None]:
        """Work within is on the stage's stream, after the work so far of the stage or the caller that hands it over.

        A collective in between gives the same order, but a rank that is alone has none.
        """
        self._follow(self._streams[stage])
        before, self._current = self._current, stage
        try:
            with self._stream_context(self._streams[stage]):
                yield
        finally:
            self._current = before

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """See Side: work within is on the caller's current stream."""
        handle = self._callers_stream()
        if handle not in self._callers:
            self._callers[handle] = len(self._queues)
            self._queues.append(_core.DeviceQueue(self.core, handle))
        before, self._current = self._current, self._callers[handle]
        try:
            yield
        finally:
            self._current = before

    @property
    def queue(self) -> DeviceQueue:
        """The current stage's."""
        return self._queues[self._current]

    def before_collective(self) -> None:
        """See Side: collectives of GPU tensors start after the current stream's work."""

    def plan(self, slots: Sequence[Slot], rank: int, world: int, whole: bool) -> Any:
        """See Side."""
        made = GpuPlan(slots, rank, world, whole, self)
        self._plans.add(made)
        tell_at_exit(self)
        return made

    def table(self) -> SlotStateTable:
        """See Side."""
        made: SlotStateTable = _core.SlotStateTable(self.core)
        return made

    def unit(self) -> Unit:
        """See Side."""
        return GpuUnit(self)

    def changes(self, keeps_states: bool) -> DeviceSlotChanges:
        """See Side."""
        made: DeviceSlotChanges = _core.DeviceSlotChanges(self.core, keeps_states)
        return made

    def look(self, average: torch.Tensor, changes: DeviceSlotChanges) -> None:
        """See Side."""
        changes.look(self.queue, self.values(average))

    def write_verdict(self, place: torch.Tensor, changes: DeviceSlotChanges) -> None:
        """See Side."""
        changes.write_verdict(self.queue, place.data_ptr())

    def read_verdicts(self, places: torch.Tensor, changes: DeviceSlotChanges) -> None:
        """See Side."""
        stride = places.stride(0) * places.element_size()
        changes.read_verdicts(self.queue, places.data_ptr(), stride, places.numel())

    def after_all(self) -> None:
        """See Side."""
        for stream in self._streams:
            self._wait_for_stream(stream)

    def settle(self, changes: DeviceSlotChanges) -> bool:
        """See Side: the GPU knows, and puts the states back itself."""
        changes.settle(self.queue)
        return False

    def values(self, tensor: torch.Tensor) -> Any:
        """See Side: address, dtype and elements."""
        return tensor.data_ptr(), CORE_NAMES[tensor.dtype], tensor.numel()

    def memory(self, plan: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """See Side."""
        outward = torch.empty(plan.outward_bytes, dtype=torch.uint8, device=self.device)
        inward = torch.empty(plan.inward_bytes, dtype=torch.uint8, device=self.device)
        plan.prepare(outward, inward)
        self.used_by_all(outward)
        self.used_by_all(inward)
        return outward, inward

    def view(self, memory: torch.Tensor) -> Any:
        """See Side."""
        return memory

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """See Side: torch uses its memory for another tensor only after the work that the streams have by then."""
        for stream in self._streams:
            tensor.record_stream(stream)

    def settled(self) -> Any:
        """See Side."""
        return torch.cuda.current_stream(self.device).record_event()

    def wait_for(self, mark: Any) -> None:
        """See Side."""
        torch.cuda.current_stream(self.device).wait_event(mark)

    def computed(self, plan: Any, changes: DeviceSlotChanges) -> None:
        """See Side."""
        plan.check(changes)

    def future(self) -> torch.futures.Future[Any]:
        """See Side: who waits for it makes the current stream wait, if the future's value is on the GPU."""
        return torch.futures.Future(devices=[self.device])

    def synchronize(self, seconds: float = _LONGEST_WORK) -> None:
        """See Side. Raises Timeout."""
        for queue in self._queues:
            queue.wait(seconds)

    def failure(self) -> HipressError | None:
        """See Side."""
        for plan in list(self._plans):
            try:
                plan.raise_error()
            except HipressError as error:
                self.told = True
                return error
        return None

    def watch(self, worker: Any) -> None:
        """failure() has this object's errors, too, as its raise_error() raises them."""
        self._plans.add(worker)

    def _new_stream(self) -> tuple[Any, int]:
        stream = torch.cuda.Stream(self.device)
        return stream, stream.cuda_stream

    def _callers_stream(self) -> int:
        return torch.cuda.current_stream(self.device).cuda_stream

    def _follow(self, stream: Any) -> None:
        stream.wait_stream(torch.cuda.current_stream(self.device))

    def _wait_for_stream(self, stream: Any) -> None:
        torch.cuda.current_stream(self.device).wait_stream(stream)

    def _stream_context(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        return torch.cuda.stream(stream)


def place(memory: torch.Tensor) -> tuple[int, int]:
    """Memory as the core takes it: address and bytes."""
    return memory.data_ptr(), memory.numel() * memory.element_size()
