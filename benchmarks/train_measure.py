# SPDX-License-Identifier: Apache-2.0
"""Takes a system's steps in turn with steps that only compute, in whatever framework."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from meeting import Meeting
from numpy.typing import NDArray
from train_job import Job, Measured

WARM_UPS = 2

Step = Callable[[], None]


@dataclass(frozen=True)
class Trial:
    """A system's step on the same batch again and again, and the step that only computes. `parameters`: those that the
    system trains. `cpu_seconds`, `bytes_sent`: what counts them; None: nobody does."""

    step: Step
    alone: Step
    parameters: Callable[[], Iterable[NDArray[Any]]]
    cpu_seconds: Callable[[], float] = time.process_time
    bytes_sent: Callable[[], int] | None = None


def measure(job: Job, system: str, trial: Trial, meeting: Meeting) -> Measured:
    """All ranks' figures of one system, complete on all of them. Raises RuntimeError if it has not kept the ranks'
    parameters the same, whose batches differ."""
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
    return Measured(system, slowest(training), slowest(computing), cpu, sent)


def _digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.digest()


def _timed(step: Step, trial: Trial, meeting: Meeting) -> tuple[float, float]:
    """Seconds, and those of the processor, until this rank and all others are done."""
    meeting.barrier()
    cpu, start = trial.cpu_seconds(), time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    meeting.barrier()
    return seconds, trial.cpu_seconds() - cpu
