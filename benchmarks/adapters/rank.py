# SPDX-License-Identifier: Apache-2.0
"""One rank of adapters.py, in the environment of its framework. It averages when it is its framework's turn."""

from __future__ import annotations

import dataclasses
import json
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import numpy as np

from benchmarks.adapters.job import Job
from benchmarks.adapters.systems import SYSTEMS, System
from benchmarks.harness.link_bytes import link_bytes
from benchmarks.harness.meeting import HipressMeeting
from benchmarks.harness.samples import Samples
from benchmarks.harness.tolerances import check_error
from benchmarks.harness.values import Array, Values
from benchmarks.models import load
from hipress import runtime
from hipress.adapter.synchronizer import SynchronizationOptions

#: For large gradients, the error is computed from one of this many pieces.
ERROR_OF_ONE_IN = 4


class RankClock:
    """The clock of one repetition, which all ranks of a framework start together."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        self._meeting = HipressMeeting()
        self.samples = Samples()

    def start(self) -> None:
        """Starts when the slowest rank is ready."""
        self._meeting.barrier()
        self._sent, self._link = self._bytes()
        self._cpu, self._start = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        """Stops on this rank."""
        self.samples.seconds.append(time.perf_counter() - self._start)

    def end(self) -> None:
        """Adds the processor time until all ranks are done: a rank with all averages may still work for other ranks."""
        self._meeting.barrier()
        self.samples.cpu_seconds.append(time.process_time() - self._cpu)
        sent, link = self._bytes()
        self.samples.bytes_sent.append(sent - self._sent)
        both_ways = (now - then for now, then in zip(link, self._link, strict=True))
        self.samples.link_bytes.append(max(both_ways, default=None))

    def _bytes(self) -> tuple[int, list[int]]:
        return runtime.counters()["bytes_sent"], link_bytes(self._interface)


def once(system: System, interface: str) -> Samples:
    """The figures of one repetition."""
    clock = RankClock(interface)
    system.repeat(clock)
    clock.end()
    return clock.samples


def error_of(job: Job, framework: str, system: System, arrays: list[Array], values: Values) -> float:
    """The error of the last averages. Raises RuntimeError if it is above the tolerance."""
    for array, average in zip(arrays, system.averages(), strict=True):
        array[...] = average
    error = values.error(ERROR_OF_ONE_IN)
    values.reset()
    check_error(f"hipress.{framework}", job.codec, error)
    return error


def main() -> None:
    """Takes part in the job of the first argument, as a rank of the framework of the second argument."""
    job, framework = Job.from_json(sys.argv[1]), sys.argv[2]
    runtime.init(timeout=job.timeout)
    gradients = load(job.model)
    arrays = [np.empty(gradient.shape, np.float32) for gradient in gradients.gradients]
    values = Values(arrays, runtime.rank(), runtime.size())
    values.reset()
    system = SYSTEMS[framework](gradients, arrays, SynchronizationOptions(codec=job.codec, topology=job.topology))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(job.turns)
        stream = connection.makefile("rw")
        print(json.dumps([framework, runtime.rank()]), file=stream, flush=True)
        for line in stream:
            samples = once(system, job.interface)
            error = error_of(job, framework, system, arrays, values) if line == "check\n" else None
            print(json.dumps([dataclasses.asdict(samples), error]), file=stream, flush=True)
    runtime.shutdown()


if __name__ == "__main__":
    main()
