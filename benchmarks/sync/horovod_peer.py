# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""Horovod over Gloo, as its DistributedOptimizer uses it: each gradient is submitted when backward releases it, and
Horovod fuses the waiting gradients. It runs in the environment of harness/horovod_environment.py."""

from __future__ import annotations

from collections.abc import Sequence

import horovod.torch as hvd
import torch

from benchmarks.harness.horovod_start import start
from benchmarks.harness.release import Release
from benchmarks.harness.torch_meeting import TorchMeeting
from benchmarks.sync.job import Job
from benchmarks.sync.systems import System


class Horovod(System):
    """Submits each gradient alone; Horovod fuses the waiting gradients."""

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
