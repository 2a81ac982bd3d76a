# SPDX-License-Identifier: Apache-2.0
"""One rank of sync.py, which starts it: measures all systems in turn and gathers the figures at rank 0."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from report import Row, spread
from sync_systems import PEERS, Ours, System

import hipress.torch as hp

T = TypeVar("T")

#: Of one run, where the number of repetitions is not given (seconds).
BUDGET = 10.0
MIN_REPEATS = 7
MAX_REPEATS = 1000
WARM_UPS = 3
#: The error is computed in pieces of so many elements: in float64, a large tensor would not fit a second time.
CHECK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike. `repeats` 0: as many as the budget allows. `result`: where rank 0 leaves
    the rows."""

    size: int
    codecs: list[str]
    topology: str
    partitions: int
    peers: list[str]
    repeats: int
    gloo_port: int
    result: str

    def command(self) -> tuple[str, ...]:
        """What starts one rank of it."""
        return (sys.executable, __file__, json.dumps(dataclasses.asdict(self)))


@dataclass
class Samples:
    """One rank's figures of one system, one entry per repetition."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    bytes_sent: list[int | None] = field(default_factory=list)


class Measurement:
    """The systems of a job on this rank, and the values they average."""

    def __init__(self, job: Job) -> None:
        # Gaussian values, as gradients nearly have, that differ from rank to rank.
        generator = torch.Generator().manual_seed(1000 + dist.get_rank())
        self._values = torch.randn(job.size // 4, generator=generator)
        # One tensor for all, so that all find the same pages in the same state.
        self._tensor = self._values.clone()
        ours = [Ours(codec, job.topology, job.partitions, self._tensor) for codec in job.codecs]
        self.systems: list[System] = [*ours, *(PEERS[peer]() for peer in job.peers)]

    def error(self, system: System) -> float:
        """The relative L2 error of one synchronisation. Raises RuntimeError if it is above the tolerance."""
        self._tensor.copy_(self._values)
        system.average(self._tensor)
        wrong = total = 0.0
        pieces = zip(torch.split(self._values, CHECK_ELEMENTS), torch.split(self._tensor, CHECK_ELEMENTS), strict=True)
        for values, got in pieces:
            exact = values.double()
            dist.all_reduce(exact)
            exact /= dist.get_world_size()
            wrong += float((got - exact).square().sum())
            total += float(exact.square().sum())
        error = math.sqrt(wrong / total)
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
        self._tensor.copy_(self._values)
        sent_before = system.bytes_sent()
        dist.barrier()
        cpu_start = time.process_time()
        start = time.perf_counter()
        system.average(self._tensor)
        samples.seconds.append(time.perf_counter() - start)
        samples.cpu_seconds.append(time.process_time() - cpu_start)
        sent = system.bytes_sent()
        samples.bytes_sent.append(None if sent is None or sent_before is None else sent - sent_before)


@dataclass(frozen=True)
class Result:
    """All ranks' figures of one system."""

    system: System
    errors: list[float]
    samples: list[Samples]

    @property
    def seconds(self) -> list[float]:
        """Of each repetition: the slowest rank's, for which training would wait."""
        return [max(times) for times in zip(*(samples.seconds for samples in self.samples), strict=True)]

    def row(self, job: Job, yardstick: float | None) -> Row:
        """What is reported. `yardstick`: the time that the speedup refers to."""
        world = len(self.samples)
        time_s = statistics.median(self.seconds)
        bandwidth = job.size / 1e9 / time_s
        sent = [count for samples in self.samples for count in samples.bytes_sent if count is not None]
        return {
            "system": self.system.name,
            "codec": self.system.codec,
            "topology": self.system.topology,
            "world": world,
            "size_bytes": job.size,
            "repeats": len(self.seconds),
            **spread("time", self.seconds),
            "speedup_ratio": None if yardstick is None else yardstick / time_s,
            "algbw_gbps": bandwidth,
            "busbw_gbps": bandwidth * 2 * (world - 1) / world,
            "bytes_sent": round(statistics.mean(sent)) if sent else None,
            "cpu_s": statistics.mean(seconds for samples in self.samples for seconds in samples.cpu_seconds),
            "error": max(self.errors),
        }


def measure(job: Job) -> list[Row]:
    """Runs the job on this rank; the rows are complete on all of them."""
    measurement = Measurement(job)
    errors = [measurement.error(system) for system in measurement.systems]
    measurement.rounds(WARM_UPS)
    start = time.perf_counter()
    measurement.rounds(1)
    # Ranks see the clock differently; all must take the same number.
    slowest = max(_gather(time.perf_counter() - start))
    repeats = job.repeats or min(MAX_REPEATS, max(MIN_REPEATS, int(BUDGET / slowest)))
    every_rank = _gather((errors, measurement.rounds(repeats)))
    results = [
        Result(system, [errors[index] for errors, _ in every_rank], [samples[index] for _, samples in every_rank])
        for index, system in enumerate(measurement.systems)
    ]
    yardstick = statistics.median(results[len(job.codecs)].seconds) if job.peers else None
    return [result.row(job, yardstick) for result in results]


def _gather(mine: T) -> list[T]:
    every: list[T] = [mine] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return every


def main() -> None:
    """Measure the job given as the only argument."""
    job = Job(**json.loads(sys.argv[1]))
    # The other threads would compete with the other ranks, which are on this machine. For all systems alike.
    torch.set_num_threads(1)
    hp.init()
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{job.gloo_port}",
        rank=hp.rank(),
        world_size=hp.size(),
        timeout=timedelta(seconds=60),
    )
    rows = measure(job)
    if hp.rank() == 0:
        Path(job.result).write_text(json.dumps(rows))
    hp.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
