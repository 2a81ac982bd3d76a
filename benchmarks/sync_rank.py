# SPDX-License-Identifier: Apache-2.0
"""One rank of sync.py, which starts it: tries topologies, measures all systems in turn, gathers figures at rank 0."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from hipress_session import hipress_session
from link_bytes import link_bytes
from sync_job import Answer, Job, Measured, Samples
from sync_peers import PEERS, Bucket, make_buckets
from sync_release import Release
from sync_rounds import LONG_WARM_UP, WARM_UPS, order, repeats_of
from sync_systems import Ours, System
from sync_tolerances import check_error
from sync_trials import promising
from sync_values import Values
from torch_meeting import gather, join

#: Errors are taken of one piece of large tensors in so many, which is a million elements: of all would take as long
#: as the measurement.
ERROR_OF_ONE_IN = 4
TRIAL_ERROR_OF_ONE_IN = 16
#: A trial that takes less (seconds) is repeated so often.
SHORT_TRIAL = 0.5
MORE_TRIALS = 5


class Measurement:
    """The systems of a job on this rank, and the values they average."""

    def __init__(self, job: Job) -> None:
        self._job = job
        # One set of tensors for all systems, so that all find the same pages in the same state.
        self._tensors = [torch.empty(gradient.shape) for gradient in job.gradients.gradients]
        self._values = Values([tensor.numpy() for tensor in self._tensors], dist.get_rank(), dist.get_world_size())
        self._release = Release(job.gradients, job.release)
        self.systems: list[System] = []

    def add_ours(self, codec: str, topology: str) -> None:
        """Needs a running HiPress."""
        self.systems.append(Ours(self._job, codec, topology, self._tensors))

    def add_peers(self) -> None:
        """Those of the job."""
        buckets: list[Bucket] = []
        if set(self._job.peers) & set(PEERS):
            buckets = make_buckets(self._tensors, self._release.order)
        for peer in self._job.peers:
            self.systems.append(_horovod(self._job) if peer == "horovod" else PEERS[peer](buckets))

    def trial(self, codec: str, topology: str) -> float:
        """Seconds that one synchronisation takes, when it is warm; of short ones the median of a few. In a session of
        its own: it leaves no memory behind, of which large models need much."""
        with hipress_session(self._job.timeout):
            self.add_ours(codec, topology)
            system = self.systems.pop()
            _, seconds = self.warm_up(system, one_in=TRIAL_ERROR_OF_ONE_IN)
            if seconds >= SHORT_TRIAL:
                return seconds
            samples = Samples()
            for _ in range(MORE_TRIALS):
                self._once(system, samples)
        slowest: list[float] = [max(times) for times in zip(*gather(samples.seconds), strict=True)]
        return statistics.median(slowest)

    def warm_up(self, system: System, one_in: int) -> tuple[float, float]:
        """The relative L2 error of a system's first synchronisation, of one piece in so many, and the seconds of the
        slowest rank when it is warm. Raises RuntimeError if the error is above the tolerance."""
        samples = Samples()
        self._once(system, samples)
        error = self._values.error(one_in)
        check_error(system.name, system.codec, error)
        for _ in range(WARM_UPS):
            self._once(system, samples)
            seconds = max(gather(samples.seconds[-1]))
            if seconds > LONG_WARM_UP:
                break
        return error, seconds

    def rounds(self, repeats: int) -> list[Samples]:
        """Each system `repeats` times, in turn."""
        samples = [Samples() for _ in self.systems]
        for repetition in range(repeats):
            for index in order(repetition, len(self.systems)):
                self._once(self.systems[index], samples[index])
        return samples

    def _once(self, system: System, samples: Samples) -> None:
        self._values.reset()
        dist.barrier()
        sent_before, link_before = system.bytes_sent(), link_bytes(self._job.interface)
        cpu_start = time.process_time()
        start = time.perf_counter()
        system.average(self._tensors, self._release)
        samples.seconds.append(time.perf_counter() - start)
        # A rank that is done may still work for the others: what that takes is its, too.
        dist.barrier()
        samples.cpu_seconds.append(time.process_time() - cpu_start)
        sent = system.bytes_sent()
        samples.bytes_sent.append(None if sent is None or sent_before is None else sent - sent_before)
        links = [after - before for after, before in zip(link_bytes(self._job.interface), link_before, strict=True)]
        samples.link_bytes.append(max(links, default=None))


def _horovod(job: Job) -> System:
    # Only its own environment has it.
    from sync_horovod import Horovod

    return Horovod(job)


def measure(job: Job) -> Answer:
    """Runs the job on this rank; the answer is complete on all of them."""
    measurement = Measurement(job)
    trials: dict[str, dict[str, float]] = {}
    for codec, topology in job.tried:
        trials.setdefault(codec, {})[topology] = measurement.trial(codec, topology)
    best = [[codec, topology] for codec, tried in trials.items() for topology in promising(tried)]
    with hipress_session(job.timeout) if job.ours or best else contextlib.nullcontext():
        for codec, topology in [*job.ours, *(one for one in best if one not in job.ours)]:
            measurement.add_ours(codec, topology)
        measurement.add_peers()
        return Answer(_measured(measurement, job), trials)


def _measured(measurement: Measurement, job: Job) -> list[Measured]:
    warm = [measurement.warm_up(system, ERROR_OF_ONE_IN) for system in measurement.systems]
    repeats = job.repeats or repeats_of(sum(seconds for _, seconds in warm))
    every_rank = gather(([error for error, _ in warm], measurement.rounds(repeats)))
    codec_s = _codec_seconds(measurement.systems, job)
    return [
        Measured(
            system.name,
            system.codec,
            system.topology,
            max(errors[index] for errors, _ in every_rank),
            [samples[index] for _, samples in every_rank],
            codec_s[index],
        )
        for index, system in enumerate(measurement.systems)
    ]


def _codec_seconds(systems: Sequence[System], job: Job) -> list[float | None]:
    """Of each of ours that has a codec: the processor time which that takes by itself. Rank 0 knows it."""
    seconds: list[float | None] = [None] * len(systems)
    codecs = {system.codec for system in systems if isinstance(system, Ours)} - {"none"}
    if codecs and dist.get_rank() == 0:
        # Not at the top: peers that run in an environment of their own have no HiPress there.
        from sync_codec_work import codec_seconds, codec_speed

        speeds = {codec: codec_speed(codec) for codec in codecs}
        local_size = int(os.environ["HIPRESS_LOCAL_SIZE"])
        hosts = [rank // local_size for rank in range(dist.get_world_size())]
        for index, system in enumerate(systems):
            if isinstance(system, Ours) and system.codec in speeds:
                seconds[index] = codec_seconds(
                    speeds[system.codec], job.gradients, system.topology, hosts, system.min_compress_bytes
                )
    # The others are idle meanwhile.
    dist.barrier()
    return seconds


def main() -> None:
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    join(job.timeout, job.gloo_port)
    answer = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(answer.to_json())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
