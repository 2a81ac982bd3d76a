# SPDX-License-Identifier: Apache-2.0
"""A GPU's side of an average over tensors of the processor: HiPress' streams, kernels and states are those of the
stand-in for the driver; torch's own streams are not there, so the host waits where a GPU's stream would."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from hipress import _core
from hipress.torch.process_groups.gpus.side import GpuSide
from tests.core.device.fake_gpus import HostKernels, fake_driver

_LONGEST = 60.0


@functools.cache
def _device() -> _core.Device:
    return _core.cuda_device(0, compiler=HostKernels(), driver=str(fake_driver()))


class FakeGpuSide(GpuSide):
    """A GpuSide of tensors on the processor."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.core = _device()
        self._streams, self._queues, self._callers, self._current = [], [], {}, 0
        self._workers = weakref.WeakSet()
        self._kept: list[torch.Tensor] = []

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """The caller reads results at once."""
        with super().at_once():
            yield
            self.queue.wait(_LONGEST)

    def before_collective(self) -> None:
        """Gloo reads the memory at once."""
        self.queue.wait(_LONGEST)

    def used_by_all(self, tensor: torch.Tensor) -> None:
        """torch's allocator of a GPU would keep the memory until the streams have done the work that they have now."""
        self._kept.append(tensor)

    def synchronize(self, seconds: float = _LONGEST) -> None:
        super().synchronize(seconds)
        self._kept.clear()

    def settled(self) -> Any:
        """torch reads results at once."""
        self.queue.wait(_LONGEST)

    def wait_for(self, mark: Any) -> None:
        """settled() has waited."""

    def is_past(self, mark: Any) -> bool:
        """settled() has waited."""
        return True

    def future(self) -> torch.futures.Future[None]:
        """Without streams of torch."""
        return torch.futures.Future()

    def _new_stream(self) -> tuple[Any, int]:
        handle = ctypes.c_void_p()
        ctypes.CDLL(str(fake_driver())).cuStreamCreate(ctypes.byref(handle), 0)
        assert handle.value is not None
        return handle, handle.value

    def _callers_stream(self) -> int:
        if not self._callers:
            self._callers_own = self._new_stream()
        return self._callers_own[1]

    def _follow(self, stream: Any) -> None:
        self.queue.wait(_LONGEST)

    def _wait_for_stream(self, stream: Any) -> None:
        for queue in self._queues:
            queue.wait(_LONGEST)

    def _stream_context(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()
