# SPDX-License-Identifier: Apache-2.0
"""One rank of train.py, which starts it: takes steps with each of PyTorch's systems."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from meeting import Meeting, TorchMeeting
from train_job import Job, Measured
from train_measure import Trial, measure
from train_models import WORKLOADS
from train_systems import make


def _bytes_sent() -> int:
    from hipress import runtime

    return runtime.counters()["bytes_sent"]


def _measured(job: Job, system: str, meeting: Meeting) -> Measured:
    workload = WORKLOADS[job.model]
    torch.manual_seed(meeting.rank)
    inputs, targets = workload.batch(job.batch_size)
    alone, training = make("alone", workload), make(system, workload)
    trial = Trial(
        step=lambda: training.step(inputs, targets),
        alone=lambda: alone.step(inputs, targets),
        parameters=lambda: (parameter.detach().numpy() for parameter in training.model.parameters()),
        bytes_sent=_bytes_sent if system.startswith("hipress") else None,
    )
    return measure(job, system, trial, meeting)


def main() -> None:
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    # The other threads would compete with the other ranks, which are on this machine. For all systems alike.
    torch.set_num_threads(1)
    ours = any(system.startswith("hipress") for system in job.systems)
    if ours:
        import hipress.torch as hp

        hp.init(timeout=job.timeout)
    address = f"127.0.0.1:{job.gloo_port}"
    if not job.gloo_port:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{address}",
        rank=int(os.environ["HIPRESS_RANK"]),
        world_size=int(os.environ["HIPRESS_SIZE"]),
        timeout=timedelta(seconds=job.timeout),
    )
    meeting = TorchMeeting()
    if "horovod" in job.systems:
        # Only its own environment has it.
        import horovod.torch as hvd
        from horovod_start import start

        server = start(hvd, meeting, job.interface, job.timeout)  # noqa: F841 -- ends with this process
    measured = []
    for system in job.systems:
        measured.append(_measured(job, system, meeting))
        gc.collect()
    if meeting.rank == 0:
        Path(job.result).write_text(json.dumps([dataclasses.asdict(one) for one in measured]))
    if ours:
        hp.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
