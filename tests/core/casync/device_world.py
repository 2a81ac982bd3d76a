# SPDX-License-Identifier: Apache-2.0
"""The same calls for ranks with tensors on devices and for ranks with tensors in host memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.compll.build.kernels import compile_kernels
from hipress.errors import Unsupported
from tests.core.casync.engine_world import spec

Compiler = Callable[[str, str, int, int], bytes]


def simulated(world_size: int, delay: float = 2e-4) -> list[_core.SimulatedDevice]:
    """One simulated device for each rank."""
    return [_core.SimulatedDevice(seed=rank, delay=delay) for rank in range(world_size)]


def on_gpu(
    world_size: int, gpus: int = 1, driver: str = "libcuda.so.1", compiler: Compiler = compile_kernels
) -> list[_core.Device]:
    """One CUDA device for each rank; ranks may share a GPU."""
    return [_core.cuda_device(rank % gpus, compiler=compiler, driver=driver) for rank in range(world_size)]


def gpu_missing() -> str | None:
    """The reason why tensors cannot be on a GPU here; None if they can."""
    try:
        on_gpu(1)
    except Unsupported as error:
        return str(error)
    return None


@dataclass
class Place:
    """The place of a rank's tensors: its device, or host memory without one."""

    engine: _core.Engine
    device: _core.Device | None = None

    def declare(self, name: str, values: NDArray[Any], **options: Any) -> int:
        (tensor,) = self.engine.declare([spec(name, values, device=self.device, **options)])
        return tensor

    def start(self, tensor: int, values: NDArray[Any] | None, like: NDArray[Any], *, in_place: bool = False) -> Any:
        """Submits the values. Returns the argument for finish()."""
        if self.device is None:
            output = np.empty_like(like) if values is None or not in_place else values.copy()
            source = output if in_place and values is not None else values
            return self.engine.submit(tensor, source, output), output, None
        target = self.device.array(np.empty_like(like) if values is None or not in_place else values)
        given = None if values is None else target if in_place else self.device.array(values)
        return self.engine.submit_on_device(tensor, given, target), np.empty_like(like), target

    def finish(self, started: Any) -> NDArray[Any] | None:
        """Waits, and returns the result, or None if no rank had values."""
        operation, output, target = started
        if self.engine.wait(operation):
            return None
        if target is not None:
            target.read(output)
        result: NDArray[Any] = output
        return result


def forget_frames(outcomes: list[Any]) -> list[Any]:
    """Removes the tracebacks of exceptions, because they hold the frames of a rank's program, with its engine and
    arrays."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            outcome.__traceback__ = None
    return outcomes


def freed(device: _core.Device) -> bool:
    """Whether the device's memory is free after the garbage collector has run."""
    deadline = time.monotonic() + 10
    while device.blocks and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    return device.blocks == 0
