# SPDX-License-Identifier: Apache-2.0
"""Traces for tests: some are written by hand, for ranks with topology "ps"; the others are recorded from real
engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hipress import _core
from tests.core.casync.engine_world import run_ranks


class Written:
    """Collects events with times in milliseconds; write() makes a file that read_trace() reads."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def span(
        self,
        rank: int,
        name: str,
        start: float,
        end: float,
        tensor: str = "",
        step: int = 0,
        size: int = 0,
        part: int = 0,
    ) -> None:
        told: dict[str, Any] = {"bytes": size}
        if tensor:
            told |= {"tensor": tensor, "step": step, "partition": part}
        self.events.append(
            {"name": name, "ph": "X", "ts": 1e9 + 1e3 * start, "dur": 1e3 * (end - start), "pid": rank, "args": told}
        )

    def exchange(self, tensor: str, step: int, start: float, raw: int, encoded: int) -> None:
        """Rank 1 encodes for 1 ms and sends for 2 ms. Rank 0 adds for 1 ms, encodes for 1 ms and sends for 2 ms. Both
        decode."""
        told: tuple[str, int] = (tensor, step)
        self.span(1, "encode", start, start + 1, *told, raw)
        self.span(1, "send", start + 1, start + 3, *told, encoded)
        self.span(0, "recv", start + 1, start + 3, *told, encoded)
        self.span(0, "merge", start + 3, start + 4, *told, raw)
        self.span(0, "encode", start + 4, start + 5, *told, raw)
        self.span(0, "send", start + 5, start + 7, *told, encoded)
        self.span(0, "decode", start + 5, start + 6, *told, raw)
        self.span(1, "recv", start + 5, start + 7, *told, encoded)
        self.span(1, "decode", start + 7, start + 8, *told, raw)

    def write(self, path: Path) -> Path:
        head = {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0", "dropped_spans": 0}}
        path.write_text(json.dumps([head, *self.events]))
        return path


def training(path: Path, tensors: Sequence[str] = ("large", "small"), steps: int = 3) -> Path:
    """Steps of 30 ms that begin every 100 ms. Backward computes for 20 ms and releases the last tensor at their end."""
    written = Written()
    for step in range(steps):
        start = 100.0 * step
        for rank in (0, 1):
            # Backward ends when all averages have arrived.
            written.span(rank, "backward", start, start + 30)
        for index, tensor in enumerate(reversed(tensors)):
            last = index + 1 == len(tensors)
            written.exchange(tensor, step, start + (20 if last else 4), raw=32_000 * (index + 1), encoded=1_000)
    written.exchange("metric", 0, 70, raw=4, encoded=4)
    return written.write(path)


def recorded(path: Path, names: Sequence[str], count: int, *, world: int = 2, steps: int = 4) -> Path:
    """A trace that engines record of onebit gradients with `count` elements each."""

    def body(engine: _core.Engine) -> None:
        specs = [
            _core.TensorSpec(name, count=count, shape=f"[{count}]", codec="onebit", partitions=world) for name in names
        ]
        handles = engine.agree("gradients", specs)
        values = [np.ones(count, np.float32) for _ in names]
        engine.start_trace()
        for _ in range(steps):
            start = _core.trace_now()
            operations = [engine.submit(handle, value, value) for handle, value in zip(handles, values, strict=True)]
            for operation in operations:
                engine.wait(operation)
            engine.record_span("backward", start, _core.trace_now())
        engine.allgather("all are done", b"")
        engine.stop_trace(str(path))

    run_ranks(world, body)
    return path
