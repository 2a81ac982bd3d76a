# SPDX-License-Identifier: Apache-2.0
"""One rank of train.py, which starts it: takes steps with each of PyTorch's systems."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from meeting import Meeting
from torch_meeting import TorchMeeting, join
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
    ours = any(system.startswith("hipress") for system in job.systems)
    if ours:
        import hipress.torch as hp

        hp.init(timeout=job.timeout)
    join(job.timeout, job.gloo_port)
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
