# SPDX-License-Identifier: Apache-2.0
"""Measures the steps of a system, in turn with steps that only compute, in any framework."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.meeting import Meeting
from benchmarks.training.job import Job, Measured

WARM_UPS = 2
#: Steps within which a system has chosen, and steps in which it looks at its choice again.
_MOST_TO_CHOOSE, _TO_CONFIRM = 100, 40

Step = Callable[[], None]


@dataclass(frozen=True)
class Trial:
    """The step of a system on a repeated batch, and the step that only computes. `parameters`: the system's trained
    parameters. `device`: what computes. `cpu_seconds`, `bytes_sent`: functions that count them; None if there are
    none."""

    step: Step
    alone: Step
    parameters: Callable[[], Iterable[NDArray[Any]]]
    device: str = "cpu"
    cpu_seconds: Callable[[], float] = time.process_time
    bytes_sent: Callable[[], int] | None = None
    chosen: Callable[[], str] | None = None
    """Of a system that chooses in its first steps; empty: it measures."""


def measure(job: Job, system: str, trial: Trial, meeting: Meeting) -> Measured:
    """The figures of all ranks for one system, on every rank. Raises RuntimeError if the ranks' parameters differ: then
    the system has not averaged gradients, because the ranks' batches differ."""
    choosing = 0
    while trial.chosen is not None and choosing < _MOST_TO_CHOOSE and not trial.chosen():
        trial.step()
        choosing += 1
    for _ in range(0 if trial.chosen is None else _TO_CONFIRM):
        trial.step()
    for _ in range(WARM_UPS):
        trial.alone()
        trial.step()
    computing, training = [], []
    before = None if trial.bytes_sent is None else trial.bytes_sent()
    for _ in range(job.steps):
        computing.append(_timed(trial.alone, trial, meeting))
        training.append(_timed(trial.step, trial, meeting))
    sent = None if trial.bytes_sent is None or before is None else round((trial.bytes_sent() - before) / job.steps)
    if len(set(meeting.gather(_digest(trial.parameters())))) > 1:
        raise RuntimeError(f"{system}: the ranks' parameters differ, so their gradients were not combined")

    def slowest(steps: list[tuple[float, float]]) -> list[float]:
        return [max(times) for times in zip(*meeting.gather([seconds for seconds, _ in steps]), strict=True)]

    cpu = [statistics.mean(times) for times in zip(*meeting.gather([used for _, used in training]), strict=True)]
    chosen = "" if trial.chosen is None else trial.chosen()
    return Measured(system, trial.device, slowest(training), slowest(computing), cpu, sent, chosen, choosing)


def _digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.digest()


def _timed(step: Step, trial: Trial, meeting: Meeting) -> tuple[float, float]:
    """Seconds and processor seconds until all ranks are done."""
    meeting.barrier()
    cpu, start = trial.cpu_seconds(), time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    meeting.barrier()
    return seconds, trial.cpu_seconds() - cpu
