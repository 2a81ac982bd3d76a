# SPDX-License-Identifier: Apache-2.0
"""One rank of sync.py, which starts it: measures all systems in turn and gathers the figures at rank 0."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from sync_job import Job, Measured, Samples, measured_to_json
from sync_peers import PEERS, make_buckets
from sync_release import Release
from sync_systems import Ours, System
from sync_values import Values

T = TypeVar("T")

#: Of the timed rounds, where their number is not given (seconds).
BUDGET = 10.0
MIN_REPEATS = 7
MAX_REPEATS = 1000
#: Rounds that warm up: so many, or as fill the time (seconds), whichever are fewer.
WARM_UPS = 3
WARM_UP_BUDGET = 5.0


class Measurement:
    """The systems of a job on this rank, and the values they average."""

    def __init__(self, job: Job) -> None:
        self._interface = job.interface
        self._values = Values(job.gradients, dist.get_rank(), dist.get_world_size())
        self._release = Release(job.gradients, job.release)
        tensors = self._values.tensors
        self.systems: list[System] = [Ours(job, codec, topology, tensors) for codec, topology in job.ours]
        buckets = make_buckets(tensors, self._release.order) if set(job.peers) & set(PEERS) else []
        for peer in job.peers:
            self.systems.append(_horovod(job) if peer == "horovod" else PEERS[peer](buckets))

    def error(self, system: System) -> float:
        """The relative L2 error of one synchronisation. Raises RuntimeError if it is above the tolerance."""
        self._values.reset()
        system.average(self._values.tensors, self._release)
        error = self._values.error()
        limit = math.inf if system.tolerance is None else system.tolerance
        if not (math.isfinite(error) and error <= limit):
            raise RuntimeError(f"{system.name}: relative error {error:g} against the exact average; limit {limit:g}")
        return error

    def rounds(self, repeats: int) -> list[Samples]:
        """Each system `repeats` times. They take turns, and the order changes: what disturbs the machine, and what a
        system leaves in its caches, then hits all alike."""
        samples = [Samples() for _ in self.systems]
        for repetition in range(repeats):
            for index in self._order(repetition):
                self._once(self.systems[index], samples[index])
        return samples

    def _order(self, repetition: int) -> Iterator[int]:
        count = len(self.systems)
        for position in range(count):
            # Forwards and backwards in turn, beginning one further each time.
            yield (repetition + (position if repetition % 2 == 0 else -position)) % count

    def _once(self, system: System, samples: Samples) -> None:
        self._values.reset()
        dist.barrier()
        sent_before, link_before = system.bytes_sent(), self._link_bytes()
        cpu_start = time.process_time()
        start = time.perf_counter()
        system.average(self._values.tensors, self._release)
        samples.seconds.append(time.perf_counter() - start)
        # A rank that is done may still work for the others: what that takes is its, too.
        dist.barrier()
        samples.cpu_seconds.append(time.process_time() - cpu_start)
        sent = system.bytes_sent()
        samples.bytes_sent.append(None if sent is None or sent_before is None else sent - sent_before)
        links = [after - before for after, before in zip(self._link_bytes(), link_before, strict=True)]
        samples.link_bytes.append(max(links, default=None))

    def _link_bytes(self) -> list[int]:
        """Received and sent by this node's interface since the start."""
        for line in Path("/proc/net/dev").read_text().splitlines():
            name, _, counters = line.partition(":")
            if self._interface and name.strip() == self._interface:
                fields = counters.split()
                return [int(fields[0]), int(fields[8])]
        return []


def _horovod(job: Job) -> System:
    # Only its own environment has it.
    from sync_horovod import Horovod

    return Horovod(job)


def measure(job: Job) -> list[Measured]:
    """Runs the job on this rank; the answer is complete on all of them."""
    measurement = Measurement(job)
    errors = [measurement.error(system) for system in measurement.systems]
    spent = last = 0.0
    for _ in range(WARM_UPS):
        last = _slowest_round(measurement)
        spent += last
        if spent > WARM_UP_BUDGET:
            break
    repeats = job.repeats or min(MAX_REPEATS, max(MIN_REPEATS, int(BUDGET / last)))
    every_rank = _gather((errors, measurement.rounds(repeats)))
    return [
        Measured(
            system.name,
            system.codec,
            system.topology,
            max(errors[index] for errors, _ in every_rank),
            [samples[index] for _, samples in every_rank],
        )
        for index, system in enumerate(measurement.systems)
    ]


def _slowest_round(measurement: Measurement) -> float:
    start = time.perf_counter()
    measurement.rounds(1)
    # Ranks see the clock differently; all must draw the same conclusion.
    return max(_gather(time.perf_counter() - start))


def _gather(mine: T) -> list[T]:
    every: list[T] = [mine] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return every


def _meeting(job: Job) -> str:
    """Where torch.distributed's ranks find each other."""
    if job.gloo_port:
        return f"tcp://127.0.0.1:{job.gloo_port}"
    return f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def main() -> None:
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    # The other threads would compete with the other ranks, which are on this machine. For all systems alike.
    torch.set_num_threads(1)
    if job.ours:
        import hipress.torch as hp

        hp.init(timeout=job.timeout)
    dist.init_process_group(
        "gloo",
        init_method=_meeting(job),
        rank=int(os.environ["HIPRESS_RANK"]),
        world_size=int(os.environ["HIPRESS_SIZE"]),
        timeout=timedelta(seconds=job.timeout),
    )
    measured = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(measured_to_json(measured))
    if job.ours:
        hp.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
