# SPDX-License-Identifier: Apache-2.0
"""One rank of train.py: it takes steps with each of PyTorch's systems."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import torch
import torch.distributed as dist

from benchmarks.harness.meeting import Meeting
from benchmarks.harness.torch_meeting import TorchMeeting, join
from benchmarks.training.job import Job, Measured
from benchmarks.training.measure import Trial, measure
from benchmarks.training.models import WORKLOADS
from benchmarks.training.systems import make


def _bytes_sent() -> int:
    from hipress import runtime

    return runtime.counters()["bytes_sent"]


def _complete(step: Callable[[torch.Tensor, torch.Tensor], None], inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Takes a step and waits until the GPU has ended it."""
    step(inputs, targets)
    if inputs.is_cuda:
        torch.cuda.synchronize()


def _measured(job: Job, system: str, meeting: Meeting) -> Measured:
    device = torch.device(job.device)
    workload = WORKLOADS[job.model].on(device)
    torch.manual_seed(meeting.rank)
    inputs, targets = workload.batch(job.batch_size)
    alone, training = make("alone", workload), make(system, workload)
    trial = Trial(
        step=lambda: _complete(training.step, inputs, targets),
        alone=lambda: _complete(alone.step, inputs, targets),
        parameters=lambda: (parameter.detach().cpu().numpy() for parameter in training.model.parameters()),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        bytes_sent=_bytes_sent if system.startswith("hipress") else None,
        chosen=training.chosen,
    )
    return measure(job, system, trial, meeting)


def main() -> None:
    """Runs the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    ours = any(system.startswith("hipress") for system in job.systems)
    if ours:
        import hipress.torch as hp

        hp.init(timeout=job.timeout)
    join(job.timeout, job.gloo_port, nccl=job.group == "nccl")
    meeting = TorchMeeting()
    if "horovod" in job.systems:
        # Only the environment of Horovod has this module.
        import horovod.torch as hvd

        from benchmarks.harness.horovod_start import start

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
