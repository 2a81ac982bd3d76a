# SPDX-License-Identifier: Apache-2.0
"""One rank of planning.py: it measures a profile, makes plans from it, and runs plans and uniform choices in turn."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.release import Release
from benchmarks.harness.torch_meeting import gather, join
from benchmarks.harness.values import Values
from benchmarks.planning.job import Answer, Job, Measured, Pair, Samples, fastest_uniform
from hipress import runtime
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.secopa.models.registry import make_model
from hipress.secopa.online.measure.measured_profile import MeasureOptions, measure_profile
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Plan
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.planner import make_plan
from hipress.secopa.profile.profile import Profile
from hipress.torch.synchronizer import GradientSynchronizer

#: The smallest and the largest number of repetitions of one system in one turn, and the time that they fill (seconds).
_LEAST, _MOST, _ROUND_S = 2, 12, 1.2
#: Warm-up repetitions, with and without codec. Codec states alternate between two memories, so two steps allocate.
_WARM_UP, _WARM_UP_UNCOMPRESSED = 3, 1


@dataclass
class System:
    """A uniform run or a plan on this rank."""

    codec: str
    options: SynchronizationOptions
    plan: Plan | None = None
    samples: Samples = field(default_factory=Samples)

    def measured(self) -> Measured:
        """The figures with the samples of all ranks, equal on every rank."""
        samples = gather(self.samples)
        if self.plan is not None:
            return Measured(self.codec, None, None, self.plan.to_json(), samples)
        return Measured(self.codec, self.options.topology, self.options.partitions, None, samples)


class Batch:
    """The systems that one job measures together."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tensors = [torch.zeros(one.shape) for one in job.gradients.gradients]
        self._values = Values([tensor.numpy() for tensor in self._tensors], dist.get_rank(), dist.get_world_size())
        self._release = Release(job.gradients, job.release)

    def profile(self) -> Profile:
        """Measures a profile, equal on all ranks."""
        codecs = sorted({codec for codec, _, _ in self._job.grid if codec != "none"})
        with hipress_session(self._job.timeout):
            process = runtime.current()
            options = MeasureOptions(
                tuple(codecs), self._job.profile_s, compute_threads=process.options.compute_threads, made="planning.py"
            )
            return measure_profile(process.engine, options)

    def plans(self, profile: Profile) -> list[tuple[str, float]]:
        """The plans as JSON, and the seconds that each took. Rank 0 makes them; the other ranks wait."""
        made: list[tuple[str, float]] = []
        if dist.get_rank() == 0:
            for codecs in self._job.planned:
                start = time.perf_counter()
                model = make_model("timeline", profile, dist.get_world_size())
                options = PlanningOptions(codecs=tuple(codecs), topologies=tuple(self._job.topologies))
                plan = make_plan(self._job.planned_gradients, model, options)
                made.append((plan.to_json(), time.perf_counter() - start))
        told = [made]
        dist.broadcast_object_list(told)
        return told[0]

    def systems(self, plans: list[str]) -> list[System]:
        uniform = [
            System(codec, SynchronizationOptions(codec=codec, topology=topology, partitions=partitions))
            for codec, topology, partitions in self._job.grid
        ]
        planned = []
        for codecs, text in zip(self._job.planned, plans, strict=True):
            plan = Plan.parse(text, "a plan")
            planned.append(System(",".join(codecs), SynchronizationOptions(plan=plan), plan))
        return [*uniform, *planned]

    def round(self, system: System, samples: Samples) -> None:
        """Runs some repetitions of one system, in a separate session, which frees its memory."""
        with hipress_session(self._job.timeout):
            named = [
                (one.name, tensor) for one, tensor in zip(self._job.gradients.gradients, self._tensors, strict=True)
            ]
            synchronizer = GradientSynchronizer(named, system.options)
            warm = Samples()
            for _ in range(_WARM_UP_UNCOMPRESSED if system.codec == RAW else _WARM_UP):
                self._once(synchronizer, warm)
            slowest = max(gather(warm.seconds[-1]))
            repeats = min(_MOST, max(_LEAST, int(_ROUND_S / slowest)))
            for _ in range(repeats):
                self._once(synchronizer, samples)
            samples.turns.append(repeats)

    def _once(self, synchronizer: GradientSynchronizer, samples: Samples) -> None:
        self._values.reset()
        dist.barrier()
        sent, cpu_start = runtime.counters()["bytes_sent"], time.process_time()
        start = time.perf_counter()
        handles = [synchronizer.submit(index, self._tensors[index]) for index in self._release.gradients()]
        for handle in handles:
            synchronizer.wait(handle)
        samples.seconds.append(time.perf_counter() - start)
        dist.barrier()
        samples.cpu_seconds.append(time.process_time() - cpu_start)
        samples.bytes_sent.append(runtime.counters()["bytes_sent"] - sent)


def _order(count: int, number: int) -> Iterator[int]:
    """The order of the systems: alternately forwards and backwards, from another start each time, so that disturbances
    of the machine affect all systems equally.
    """
    for position in range(count):
        yield (number * count // 3 + (position if number % 2 == 0 else -position)) % count


def measure(job: Job) -> Answer:
    """Runs the job on this rank. The answer is complete on every rank."""
    batch = Batch(job)
    profiles = [Profile.parse(job.profile, "the profile")] if job.profile else [batch.profile()]
    plans = batch.plans(profiles[0])
    systems = batch.systems([text for text, _ in plans])
    for number in range(job.turns):
        if number:
            profiles.append(profiles[0] if job.profile else batch.profile())
        for index in _order(len(systems), number):
            batch.round(systems[index], systems[index].samples)
    measured = [system.measured() for system in systems]
    measured = [
        replace(one, pair=_pair(batch, system, systems[fastest_uniform(one.codec, measured)], job.turns))
        if system.plan is not None
        else one
        for one, system in zip(measured, systems, strict=True)
    ]
    return Answer([one.to_json() for one in profiles], measured, [seconds for _, seconds in plans])


def _pair(batch: Batch, plan: System, uniform: System, turns: int) -> Pair:
    """Measures a plan and a uniform run in turns; they alternate in being first."""
    both = [(plan, Samples()), (uniform, Samples())]
    for number in range(turns):
        for system, samples in both if number % 2 == 0 else reversed(both):
            batch.round(system, samples)
    return Pair(*(gather(samples) for _, samples in both))


def main() -> None:
    """Runs the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    join(job.timeout)
    answer = measure(job)
    if dist.get_rank() == 0:
        Path(job.result).write_text(answer.to_json())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
