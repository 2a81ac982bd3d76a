# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""Horovod over Gloo, as its DistributedOptimizer uses it: each gradient is handed over when backward has it, and
Horovod fuses those that are there. Runs in the environment of horovod_environment.py."""

from __future__ import annotations

from collections.abc import Sequence

import horovod.torch as hvd
import torch
from horovod_start import start
from sync_job import Job
from sync_release import Release
from sync_systems import System
from torch_meeting import TorchMeeting


class Horovod(System):
    """Each gradient on its own; Horovod fuses those that are there."""

    name = "horovod"
    codec = "none"

    def __init__(self, job: Job) -> None:
        self._server = start(hvd, TorchMeeting(), job.interface, job.timeout)

    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        handles = [
            hvd.allreduce_async_(tensors[index], name=f"gradient.{index}", op=hvd.Average)
            for index in release.gradients()
        ]
        for handle in handles:
            hvd.synchronize(handle)
