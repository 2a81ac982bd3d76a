# SPDX-License-Identifier: Apache-2.0
"""One rank of train.py, which starts it: takes steps with each system, in turn with steps that only compute."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from train_job import Job, Measured
from train_models import WORKLOADS
from train_systems import make

T = TypeVar("T")

WARM_UPS = 2


def _gather(mine: T) -> list[T]:
    every: list[T] = [mine] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return every


def _timed(step: Callable[[], None]) -> tuple[float, float]:
    """Seconds, and those of the processor, until this rank and all others are done."""
    dist.barrier()
    cpu, start = time.process_time(), time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    dist.barrier()
    return seconds, time.process_time() - cpu


def _bytes_sent(system: str) -> int | None:
    if not system.startswith("hipress"):
        return None
    from hipress import runtime

    return runtime.counters()["bytes_sent"]


def measure(job: Job, system: str) -> Measured:
    """All ranks' figures of one system, complete on all of them."""
    workload = WORKLOADS[job.model]
    torch.manual_seed(dist.get_rank())
    inputs, targets = workload.batch(job.batch_size)
    alone, step = make("alone", workload), make(system, workload)
    for _ in range(WARM_UPS):
        alone(inputs, targets)
        step(inputs, targets)
    computing, training = [], []
    before = _bytes_sent(system)
    for _ in range(job.steps):
        computing.append(_timed(lambda: alone(inputs, targets)))
        training.append(_timed(lambda: step(inputs, targets)))
    after = _bytes_sent(system)
    sent = None if before is None or after is None else round((after - before) / job.steps)

    def slowest(steps: list[tuple[float, float]]) -> list[float]:
        return [max(times) for times in zip(*_gather([seconds for seconds, _ in steps]), strict=True)]

    cpu = [statistics.mean(times) for times in zip(*_gather([used for _, used in training]), strict=True)]
    return Measured(system, slowest(training), slowest(computing), cpu, sent)


def main() -> None:
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    # The other threads would compete with the other ranks, which are on this machine. For all systems alike.
    torch.set_num_threads(1)
    ours = any(system.startswith("hipress") for system in job.systems)
    if ours:
        import hipress.torch as hp

        hp.init(timeout=job.timeout)
    meeting = f"127.0.0.1:{job.gloo_port}"
    if not job.gloo_port:
        meeting = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{meeting}",
        rank=int(os.environ["HIPRESS_RANK"]),
        world_size=int(os.environ["HIPRESS_SIZE"]),
        timeout=timedelta(seconds=job.timeout),
    )
    if "horovod" in job.systems:
        # Only its own environment has it.
        from sync_horovod import start

        server = start(job.interface, job.timeout)  # noqa: F841 -- ends with this process
    measured = []
    for system in job.systems:
        measured.append(measure(job, system))
        gc.collect()
    if dist.get_rank() == 0:
        Path(job.result).write_text(json.dumps([dataclasses.asdict(one) for one in measured]))
    if ours:
        hp.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
