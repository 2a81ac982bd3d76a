# SPDX-License-Identifier: Apache-2.0
"""One rank of sync.py: it tries topologies, measures all systems in turn, and gathers the figures at rank 0."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.link_bytes import link_bytes
from benchmarks.harness.release import Release
from benchmarks.harness.samples import Measured, Samples
from benchmarks.harness.tolerances import check_error
from benchmarks.harness.topologies import promising
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.harness.turns import LONG_WARM_UP, WARM_UPS, order, repeats_of
from benchmarks.harness.values import Values
from benchmarks.sync.hook_peer import HOOK, Hooked
from benchmarks.sync.job import Answer, Job
from benchmarks.sync.systems import Ours, System
from benchmarks.sync.torch_peers import PEERS, Bucket, make_buckets

#: For large tensors, the error is computed from one of this many pieces (a million elements each): all pieces would
#: take as long as the measurement.
ERROR_OF_ONE_IN = 4
TRIAL_ERROR_OF_ONE_IN = 16
#: A trial shorter than this (seconds) is followed by MORE_TRIALS trials, of which the median counts.
SHORT_TRIAL = 0.5
MORE_TRIALS = 5


class Measurement:
    """The systems of a job on this rank, and the values that they average."""

    def __init__(self, job: Job) -> None:
        self._job = job
        # All systems average the same tensors, so that the state of their pages is the same.
        self._tensors = [torch.empty(gradient.shape) for gradient in job.gradients.gradients]
        self._values = Values([tensor.numpy() for tensor in self._tensors], dist.get_rank(), dist.get_world_size())
        self._release = Release(job.gradients, job.release)
        self.systems: list[System] = []

    def add_ours(self, codec: str, topology: str) -> None:
        """Adds HiPress with a codec and a topology; HiPress must run."""
        self.systems.append(Ours(self._job, codec, topology, self._tensors))

    def add_peers(self) -> None:
        """Adds the peers of the job."""
        buckets: list[Bucket] = []
        if set(self._job.peers) - {"horovod"}:
            buckets = make_buckets(self._tensors, self._release.order)
        for peer in self._job.peers:
            if peer == "horovod":
                self.systems.append(_horovod(self._job))
            elif peer.startswith(HOOK):
                self.systems.append(Hooked(buckets, peer.removeprefix(HOOK)))
            else:
                self.systems.append(PEERS[peer](buckets))

    def trial(self, codec: str, topology: str) -> float:
        """Seconds of a warm synchronisation; if it is short, the median of a few. It runs in a separate session, which
        frees the memory."""
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
        """The relative L2 error of a system's first synchronisation, sampled by `one_in`, and the seconds of the
        slowest rank in a warm one. Raises RuntimeError if the error is above the tolerance."""
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

    def turns(self, repeats: int) -> list[Samples]:
        """Measures every system `repeats` times, in turn."""
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
        # A rank with all averages may still work for other ranks; this processor time counts, too.
        dist.barrier()
        samples.cpu_seconds.append(time.process_time() - cpu_start)
        sent = system.bytes_sent()
        samples.bytes_sent.append(None if sent is None or sent_before is None else sent - sent_before)
        links = [after - before for after, before in zip(link_bytes(self._job.interface), link_before, strict=True)]
        samples.link_bytes.append(max(links, default=None))


def _horovod(job: Job) -> System:
    # Only the environment of Horovod has this module.
    from benchmarks.sync.horovod_peer import Horovod

    return Horovod(job)


def measure(job: Job) -> Answer:
    """Runs the job on this rank. The answer is complete on every rank."""
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
    every_rank = gather(([error for error, _ in warm], measurement.turns(repeats)))
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
    """The processor seconds of the codec alone for each system of HiPress with a codec; rank 0 measures them."""
    seconds: list[float | None] = [None] * len(systems)
    codecs = {system.codec for system in systems if isinstance(system, Ours)} - {"none"}
    if codecs and dist.get_rank() == 0:
        # Imported here, because the environments of peers have no HiPress.
        from benchmarks.harness.codec_work import codec_seconds, codec_speed

        speeds = {codec: speed for codec in codecs if (speed := codec_speed(codec)) is not None}
        local_size = int(os.environ["HIPRESS_LOCAL_SIZE"])
        hosts = [rank // local_size for rank in range(dist.get_world_size())]
        for index, system in enumerate(systems):
            if isinstance(system, Ours) and system.codec in speeds:
                seconds[index] = codec_seconds(
                    speeds[system.codec], job.gradients, system.topology, hosts, system.min_compress_bytes
                )
    # The other ranks wait here, idle.
    dist.barrier()
    return seconds


def main() -> None:
    """Runs the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(job.timeout, job.gloo_port)
    answer = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(answer.to_json())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
