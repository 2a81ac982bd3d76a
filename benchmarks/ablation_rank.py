# SPDX-License-Identifier: Apache-2.0
"""One rank of ablation.py, which starts it: visits the variants in turn, each in a HiPress session of its own."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from ablation_job import Job, Visit, Visits, visits_to_json
from ablation_variants import Variant
from hipress_session import hipress_session
from simulated_training import forward_seconds, step_end
from sync_release import Release
from sync_rounds import WARM_UPS, order
from sync_tolerances import check_error
from sync_values import Values
from torch_meeting import gather, join

import hipress.torch as hp
from hipress import runtime
from hipress.synchronizer import SynchronizationOptions

#: Synchronisations of a visit: as many as fill the time (seconds), at most so many.
VISIT_S = 1.5
MOST_PER_VISIT = 6
#: Variants that take longer (seconds) come in the first rounds only, without a warm-up: they are there to show how far
#: the others have come, and a second more or less does not change that.
SLOW_S = 4.0
SLOW_ROUNDS = 3
MIN_ROUNDS = 4
#: Errors are taken of one piece in so many: of all that would take longer than to measure.
ERROR_OF_ONE_IN = 16


class Ablation:
    """The variants of a job on this rank, and the values they average."""

    def __init__(self, job: Job) -> None:
        self._job = job
        gradients = job.gradients
        self._tensors = [torch.empty(gradient.shape) for gradient in gradients.gradients]
        self._values = Values([tensor.numpy() for tensor in self._tensors], dist.get_rank(), dist.get_world_size())
        self._names = [one.name for one in gradients.gradients]
        self._release = Release(gradients, job.release)
        self._forward = forward_seconds(gradients)

    def check(self, variant: Variant) -> float:
        """Seconds that it takes. Raises RuntimeError if what it averages first is wrong."""
        visit = Visit(0)
        with hipress_session(self._job.timeout, variant.settings):
            synchronizer = self._synchronizer(variant)
            self._once(synchronizer, visit)
            check_error(variant.name, variant.codec, self._values.error(ERROR_OF_ONE_IN))
            # The first one has made connections and found memory that was never touched.
            self._once(synchronizer, visit)
        return visit.time_s[-1]

    def visit(self, variant: Variant, number: int, count: int) -> Visit:
        """Measures it `count` times, warm if that is not too long; all ranks' figures."""
        visit = Visit(number)
        with hipress_session(self._job.timeout, variant.settings):
            synchronizer = self._synchronizer(variant)
            # A session's first steps find memory that was never touched, for codecs, bundles and what arrives.
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
        before, cpu = runtime.counters(), time.process_time()
        start = time.perf_counter()
        handles = {index: synchronizer.submit(index, tensors[index]) for index in self._release.gradients()}
        averaged = []
        for index in range(len(tensors)):  # As the forward pass needs them.
            synchronizer.wait(handles[index])
            averaged.append(time.perf_counter() - start)
        dist.barrier()
        cpu = time.process_time() - cpu
        counted = {name: count - before[name] for name, count in runtime.counters().items()}
        end = step_end(self._job.forward_start, averaged, self._forward)
        every = gather((averaged[-1], end, cpu, counted["messages_sent"], counted["bundles_sent"]))
        times, ends, cpus, messages, bundles = zip(*every, strict=True)
        visit.time_s.append(max(times))
        visit.step_s.append(max(ends))
        visit.cpu_s.append(statistics.mean(cpus))
        visit.messages.append(statistics.mean(messages))
        visit.bundles.append(statistics.mean(bundles))


def measure(job: Job) -> Visits:
    """Runs the job on this rank; the answer is complete on all of them."""
    ablation = Ablation(job)
    seconds = [ablation.check(variant) for variant in job.variants]
    visits: Visits = {variant.name: [] for variant in job.variants}
    start = time.perf_counter()
    number = 0
    # Ranks see the clock differently; all must draw the same conclusion.
    while number < (job.rounds or MIN_ROUNDS) or (
        not job.rounds and max(gather(time.perf_counter() - start)) < job.seconds
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
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    join(job.timeout, job.gloo_port)
    visits = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(visits_to_json(visits))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
