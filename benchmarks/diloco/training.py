# SPDX-License-Identifier: Apache-2.0
"""One training of diloco.py, with its clock."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.diloco.job import ALONE, DDP, STREAMING, TIMED_ONLY, WAITING, Job, Trained
from benchmarks.diloco.model import ByteDecoder, Text, loss
from benchmarks.harness.hipress_session import hipress_session
from benchmarks.harness.link_bytes import link_bytes
from benchmarks.harness.torch_meeting import gather

#: Number of synchronisations of each fragment that are enough to time them.
_TIMED_ROUNDS = 8
_Values = dict[str, torch.Tensor]
#: A context within which the model has the trained parameters.
_Outer = Callable[[], AbstractContextManager[None]]


def _register_bf16(model: DistributedDataParallel) -> None:
    # register_comm_hook() refuses torch's own hook, by its name, unless the group is NCCL's. Gloo adds bf16, too.
    model.register_comm_hook(None, lambda group, bucket: bf16_compress_hook(group, bucket))


def trained(system: str, text: Text, job: Job, timeout_s: float) -> Trained:
    """Trains on all ranks with a system of job.SYSTEMS. Raises the errors of its synchronisations."""
    torch.manual_seed(job.seed)  # the same initial weights on all ranks and in all trainings
    model = ByteDecoder(job.width, job.layers, job.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.learning_rate)
    if system == ALONE:
        return _Training(job, system, model, optimizer, contextlib.nullcontext).run(model, text)
    if system == DDP:
        replicated = DistributedDataParallel(model)
        _register_bf16(replicated)
        return _Training(job, system, model, optimizer, contextlib.nullcontext).run(replicated, text)
    import hipress.torch as hp

    with hipress_session(timeout_s):
        preset = "streaming" if system == WAITING else system
        streams = system in STREAMING
        diloco = hp.DiLoCo(
            model,
            optimizer,
            preset=preset,
            sync_every=job.sync_every,
            fragments=job.fragments if streams else 1,
            overlap_steps=job.overlap_steps if system == "streaming" else 0,
            codec=job.streaming_codec if streams else None,
        )
        result = _Training(job, system, model, optimizer, diloco.outer_parameters).run(model, text)
        diloco.detach()
        return result


class _Training:
    """Trains, and keeps copies of the trained model. It computes their losses at the end, because that takes time."""

    def __init__(
        self, job: Job, system: str, model: nn.Module, optimizer: torch.optim.Optimizer, outer: _Outer
    ) -> None:
        self._job, self._system, self._model, self._optimizer, self._outer = job, system, model, optimizer, outer
        self._steps = job.ddp_steps if system == DDP else job.steps
        if system in TIMED_ONLY:
            self._steps = min(self._steps, _TIMED_ROUNDS * job.sync_every)
        self._copies: dict[int, _Values] = {}
        self._times: dict[int, float] = {}

    def run(self, computed: nn.Module, text: Text) -> Trained:
        """Runs the training. `computed`: the model, or the module that wraps it."""
        generator = torch.Generator().manual_seed(1000 * self._job.seed + dist.get_rank())
        interface = self._job.interface
        in_step: list[float] = []
        dist.barrier()
        before = link_bytes(interface)
        start, paused = time.perf_counter(), 0.0
        for step in range(1, self._steps + 1):
            self._optimizer.zero_grad()
            loss(computed, text.batch(self._job.sequences, generator)).backward()
            began = time.perf_counter()
            self._optimizer.step()
            ended = time.perf_counter()
            in_step.append(ended - began)
            if step % self._job.every == 0:
                self._copy(step, ended - start - paused)
                paused += time.perf_counter() - ended
        elapsed = time.perf_counter() - start - paused
        after = link_bytes(interface)
        dist.barrier()
        judged = self._judged(text) if dist.get_rank() == 0 and self._system not in TIMED_ONLY else {}
        sent = gather(after[1] - before[1]) if before else []
        return Trained(
            steps=self._steps,
            time_s=statistics.mean(gather(elapsed)),
            waiting_s=None if self._system == DDP else statistics.mean(gather(self._waiting(in_step))),
            sent_bytes=round(statistics.mean(sent)) if sent else None,
            parameters=sum(each.numel() for each in self._model.parameters()),
            times_s=self._times,
            losses=judged,
        )

    def _copy(self, step: int, time_s: float) -> None:
        # All ranks make copies, though only rank 0 needs them: its peers would wait for it otherwise.
        if self._system not in TIMED_ONLY:
            with self._outer():
                self._copies[step] = {name: each.detach().clone() for name, each in self._model.named_parameters()}
            self._times[step] = time_s

    def _waiting(self, in_step: list[float]) -> float:
        """Seconds of waiting in the steps after which a synchronisation begins, or whose end needs one."""
        fragments = self._job.fragments if self._system in STREAMING else 1
        distance = self._job.sync_every // fragments
        overlap = self._job.overlap_steps if self._system == "streaming" else 0
        plain = statistics.median(in_step)
        ends = [
            step for step in range(1, len(in_step) + 1) if step > distance and step % distance == overlap % distance
        ]
        touched = {*range(distance, len(in_step) + 1, distance), *ends}
        return 0.0 if self._system == ALONE else sum(max(0.0, in_step[step - 1] - plain) for step in sorted(touched))

    @torch.no_grad()
    def _judged(self, text: Text) -> dict[int, float]:
        losses = {}
        parameters = dict(self._model.named_parameters())
        for step, values in self._copies.items():
            for name, each in values.items():
                parameters[name].copy_(each)
            losses[step] = loss(self._model, text.judged).item()
        return losses
