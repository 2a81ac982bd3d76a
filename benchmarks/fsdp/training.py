# SPDX-License-Identifier: Apache-2.0
"""One training of fsdp, with its clock."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from benchmarks.diloco.model import ByteDecoder, Text, loss
from benchmarks.fsdp.bfloat16_traffic import send_bfloat16
from benchmarks.fsdp.job import ALONE, BFLOAT16, INT8, Job, Trained
from benchmarks.harness.link_bytes import link_bytes
from benchmarks.harness.torch_meeting import gather

#: Steps before the clock starts: the first ones allocate memory.
WARM_UPS = 2


def trained(name: str, text: Text, job: Job) -> Trained:
    """Trains on all ranks with a system of job.SYSTEMS. All trainings begin with the same weights and sequences."""
    torch.manual_seed(job.seed)
    model = ByteDecoder(job.width, job.layers, job.context)
    parameters = sum(each.numel() for each in model.parameters())
    if name != ALONE:
        _shard(model, name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=job.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(1000 * job.seed + dist.get_rank())
    seconds: list[float] = []
    before: list[int] = []
    began = 0.0
    for step in range(job.steps):
        sequences = text.batch(job.sequences, generator)
        dist.barrier()
        if step == WARM_UPS:
            before, began = link_bytes(job.interface), time.process_time()
        start = time.perf_counter()
        loss(model, sequences).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
    after, cpu = link_bytes(job.interface), time.process_time() - began
    sent = gather((after[1] - before[1]) / (job.steps - WARM_UPS)) if before else []
    slowest = [max(times) for times in zip(*gather(seconds[WARM_UPS:]), strict=True)]
    cpu_seconds = statistics.mean(gather(cpu)) / (job.steps - WARM_UPS)
    sent_bytes = statistics.mean(sent) if sent else None
    return Trained(slowest, cpu_seconds, sent_bytes, parameters, _judged(model, text, job))


def _shard(model: ByteDecoder, system: str) -> None:
    """Each block is a unit of FSDP2, and the rest of the model is one. The gathers overlap with computing."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    following: nn.Module | None = None
    for block in reversed(model.blocks):
        if following is not None:
            block.set_modules_to_forward_prefetch([following])
        following = block
    model._set_unshard_async_op(True)  # otherwise FSDP2 waits for each of Gloo's gathers before it goes on
    if system == BFLOAT16:
        send_bfloat16(model)
    if system == INT8:
        from hipress.torch import fsdp

        fsdp.compress_all_gather(model, "int8")
        fsdp.compress_reduce_scatter(model, "int8")


@torch.no_grad()
def _judged(model: nn.Module, text: Text, job: Job) -> float:
    """The loss of the optimizer's exact weights on text that is not in the training data."""
    whole = ByteDecoder(job.width, job.layers, job.context)
    with torch.no_grad():
        for kept, each in zip(whole.parameters(), model.parameters(), strict=True):
            kept.copy_(each.full_tensor() if hasattr(each, "full_tensor") else each)
    return loss(whole, text.judged).item()
