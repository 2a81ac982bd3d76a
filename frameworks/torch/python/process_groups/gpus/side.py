# SPDX-License-Identifier: Apache-2.0
"""A GPU as the place where an average over a process group computes, for groups of GPU tensors (NCCL).

Nothing here waits for the GPU. Each stage has a stream of its own: encoding a batch overlaps with the average of an
earlier one. `Work.wait()` of a collective makes the stage's stream wait, and a collective starts after the work that is
on the current stream, which is the stage's. Bytes never pass through the processor's memory.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from hipress._library import load_core
from hipress.errors import HipressError
from hipress.gpus import gpu
from hipress.torch.process_groups.gpus.endings import tell, tell_at_exit
from hipress.torch.process_groups.side import Putting, Runs, Side
from hipress.torch.scaling.units import GpuUnit, Unit

if TYPE_CHECKING:
    from hipress._core import Codec, Device, SlotProgram, SlotQueue, SummedTensor

Item = TypeVar("Item")
Worker = TypeVar("Worker")
_core = load_core()
#: Longest wait of synchronize(), which only checkpoints need (seconds).
_LONGEST_WORK = 300.0


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


class GpuSide(Side):
    """A GPU, the streams of HiPress on it, and its codecs."""

    #: Whether failure() has returned an error, or the log has one.
    told = False
    no_factors = "HiPress multiplies matrices on the processor only; use another codec"

    def __init__(self, device: torch.device) -> None:
        """Raises Unsupported, which names what is missing: the driver, the GPU or NVRTC."""
        self.device = device
        self.core: Device = gpu(device.index or 0)
        self._streams: list[torch.cuda.Stream] = []
        self._queues: list[SlotQueue] = []
        #: The callers' streams that at_once() has used: numbers of their queues, by handle.
        self._callers: dict[int, int] = {}
        self._current = 0
        self._workers: weakref.WeakSet[Any] = weakref.WeakSet()

    def stage(self, name: str, work: Callable[[Item], None]) -> Putting[Item]:
        """See Side."""
        stream, handle = self._new_stream()
        self._streams.append(stream)
        self._queues.append(_core.SlotQueue(self.core, handle))
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
            self._queues.append(_core.SlotQueue(self.core, handle))
        before, self._current = self._current, self._callers[handle]
        try:
            yield
        finally:
            self._current = before

    @property
    def queue(self) -> SlotQueue:
        """The current stage's."""
        return self._queues[self._current]

    def runs(self, program: SlotProgram) -> Runs:
        """See Side."""
        return self._watched(super().runs(program))

    def summed(self, name: str, codec: Codec, count: int, number: int) -> SummedTensor:
        """See Side."""
        return self._watched(super().summed(name, codec, count, number))

    def _watched(self, made: Worker) -> Worker:
        """failure() has the errors of `made`."""
        self._workers.add(made)
        tell_at_exit(self)
        return made

    def unit(self) -> Unit:
        """See Side."""
        return GpuUnit(self)

    def after_all(self) -> None:
        """See Side."""
        for stream in self._streams:
            self._wait_for_stream(stream)

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """See Side: torch uses its memory for another tensor only after the work that the streams have by then."""
        for stream in self._streams:
            tensor.record_stream(stream)

    def settled(self) -> Any:
        """See Side."""
        return torch.cuda.current_stream(self.device).record_event()

    def wait_for(self, mark: Any) -> None:
        """See Side."""
        if mark is not None:
            torch.cuda.current_stream(self.device).wait_event(mark)

    def is_past(self, mark: Any) -> bool:
        """See Side."""
        return mark is None or bool(mark.query())

    def future(self) -> torch.futures.Future[Any]:
        """See Side: who waits for it makes the current stream wait, if the future's value is on the GPU."""
        return torch.futures.Future(devices=[self.device])

    def synchronize(self, seconds: float = _LONGEST_WORK) -> None:
        """See Side. Raises Timeout."""
        for queue in self._queues:
            queue.wait(seconds)

    def failure(self) -> HipressError | None:
        """See Side."""
        for worker in list(self._workers):
            try:
                worker.raise_error()
            except HipressError as error:
                self.told = True
                return error
        return None

    def ended(self) -> None:
        """See Side."""
        if not sys.is_finalizing():  # tell_at_exit() has told it
            tell(self)

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
