# SPDX-License-Identifier: Apache-2.0
"""One rank of ablation.py: it measures the variants in turn, each in a separate HiPress session."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

import hipress.torch as hp
from benchmarks.ablation.job import Job, Visit, Visits, visits_to_json
from benchmarks.ablation.variants import Variant
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.release import Release
from benchmarks.harness.simulated_training import forward_seconds, step_end
from benchmarks.harness.tolerances import check_error
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.harness.turns import WARM_UPS, order
from benchmarks.harness.values import Values
from hipress import runtime
from hipress.adapter.synchronizer import SynchronizationOptions

#: Duration of a visit (seconds), and the largest number of its synchronisations.
VISIT_S = 1.5
MOST_PER_VISIT = 6
#: Variants that take longer (seconds) run only in the first turns, without a warm-up: they only show the starting
#: point, which need not be exact.
SLOW_S = 4.0
SLOW_ROUNDS = 3
MIN_TURNS = 4
#: The error is computed from one of this many pieces: all pieces would take longer than the measurement.
ERROR_OF_ONE_IN = 16


class Ablation:
    """The variants of a job on this rank, and the values that they average."""

    def __init__(self, job: Job) -> None:
        self._job = job
        gradients = job.gradients
        self._tensors = [torch.empty(gradient.shape) for gradient in gradients.gradients]
        self._values = Values([tensor.numpy() for tensor in self._tensors], dist.get_rank(), dist.get_world_size())
        self._names = [one.name for one in gradients.gradients]
        self._release = Release(gradients, job.release)
        self._forward = forward_seconds(gradients)

    def check(self, variant: Variant) -> float:
        """Seconds of one synchronisation. Raises RuntimeError if the first average is wrong."""
        visit = Visit(0)
        with hipress_session(self._job.timeout, variant.settings):
            synchronizer = self._synchronizer(variant)
            self._once(synchronizer, visit)
            check_error(variant.name, variant.codec, self._values.error(ERROR_OF_ONE_IN))
            # The first synchronisation has opened connections and touched new memory.
            self._once(synchronizer, visit)
        return visit.time_s[-1]

    def visit(self, variant: Variant, number: int, count: int) -> Visit:
        """The figures of all ranks for `count` synchronisations, after a warm-up unless one takes long."""
        visit = Visit(number)
        with hipress_session(self._job.timeout, variant.settings):
            synchronizer = self._synchronizer(variant)
            # The first steps of a session touch new memory for codecs, bundles and received messages.
            for _ in range(WARM_UPS if count > 1 else 0):
                self._once(synchronizer, Visit(number))
            for _ in range(count):
                self._once(synchronizer, visit)
        return visit

    def _synchronizer(self, variant: Variant) -> hp.GradientSynchronizer:
        named = zip(self._names, self._tensors, strict=True)
        options = SynchronizationOptions(codec=variant.codec, topology=self._job.topology)
        return hp.GradientSynchronizer(named, options)

    def _once(self, synchronizer: hp.GradientSynchronizer, visit: Visit) -> None:
        tensors = self._tensors
        self._values.reset()
        dist.barrier()
        before, again, cpu = runtime.counters(), _retransmitted(), time.process_time()
        start = time.perf_counter()
        handles = {index: synchronizer.submit(index, tensors[index]) for index in self._release.gradients()}
        averaged = []
        for index in range(len(tensors)):  # in the order in which forward needs them
            synchronizer.wait(handles[index])
            averaged.append(time.perf_counter() - start)
        dist.barrier()
        cpu = time.process_time() - cpu
        again = _retransmitted() - again
        counted = {name: count - before[name] for name, count in runtime.counters().items()}
        end = step_end(self._job.forward_start, averaged, self._forward)
        every = gather((averaged[-1], end, cpu, counted["messages_sent"], counted["bundles_sent"], again))
        times, ends, cpus, messages, bundles, retransmitted = zip(*every, strict=True)
        visit.time_s.append(max(times))
        visit.step_s.append(max(ends))
        visit.cpu_s.append(statistics.mean(cpus))
        visit.messages.append(statistics.mean(messages))
        visit.bundles.append(statistics.mean(bundles))
        visit.retransmitted.append(statistics.mean(retransmitted))


def _retransmitted() -> int:
    """The TCP segments that this host, or this node of a cluster, has sent again so far."""
    names, values = (
        line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines() if line[:4] == "Tcp:"
    )
    return int(values[names.index("RetransSegs")])


def measure(job: Job) -> Visits:
    """Runs the job on this rank. The answer is complete on every rank."""
    ablation = Ablation(job)
    seconds = [ablation.check(variant) for variant in job.variants]
    visits: Visits = {variant.name: [] for variant in job.variants}
    start = time.perf_counter()
    number = 0
    # The clocks of the ranks differ, but all ranks must make the same decision.
    while number < (job.turns or MIN_TURNS) or (
        not job.turns and max(gather(time.perf_counter() - start)) < job.seconds
    ):
        for index in order(number, len(job.variants)):
            slow = seconds[index] > SLOW_S
            if slow and number >= SLOW_ROUNDS:
                continue
            count = 1 if slow else max(2, min(MOST_PER_VISIT, int(VISIT_S / seconds[index])))
            visits[job.variants[index].name].append(ablation.visit(job.variants[index], number, count))
        number += 1
    return visits


def main() -> None:
    """Runs the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(job.timeout, job.gloo_port)
    visits = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(visits_to_json(visits))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
