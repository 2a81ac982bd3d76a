# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""Horovod over Gloo, as its DistributedOptimizer uses it: each gradient is handed over when backward has it, and
Horovod fuses those that are there. Runs in the environment of horovod_environment.py."""

from __future__ import annotations

import os
from collections.abc import Sequence

import horovod.torch as hvd
import torch
import torch.distributed as dist
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer
from sync_job import Job
from sync_release import Release
from sync_systems import System


def start(interface: str, timeout: float) -> RendezvousServer | None:
    """Horovod runs afterwards, with its defaults for fusion and cycle time; rank 0 keeps what is returned.

    What `horovodrun` does to start ranks is done here: it would want to log in to the nodes. torch.distributed must be
    there. `interface`: over which ranks talk; empty: this machine's loopback.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank, local_size = (int(os.environ[f"HIPRESS_LOCAL_{what}"]) for what in ("RANK", "SIZE"))
    node = rank // local_size
    server, ports = None, [0]
    if rank == 0:
        nodes = ",".join(f"node{index}:{local_size}" for index in range(world // local_size))
        server = RendezvousServer()
        ports = [server.start()]
        server.init(get_host_assignments(parse_hosts(nodes), world))
    dist.broadcast_object_list(ports, src=0)
    os.environ.update(
        HOROVOD_RANK=str(rank),
        HOROVOD_SIZE=str(world),
        HOROVOD_LOCAL_RANK=str(local_rank),
        HOROVOD_LOCAL_SIZE=str(local_size),
        HOROVOD_CROSS_RANK=str(node),
        HOROVOD_CROSS_SIZE=str(world // local_size),
        HOROVOD_HOSTNAME=f"node{node}",
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        HOROVOD_GLOO_RENDEZVOUS_ADDR=os.environ["MASTER_ADDR"] if interface else "127.0.0.1",
        HOROVOD_GLOO_RENDEZVOUS_PORT=str(ports[0]),
        HOROVOD_GLOO_IFACE=interface or "lo",
        HOROVOD_GLOO_TIMEOUT_SECONDS=str(int(timeout)),
    )
    hvd.init()
    return server


class Horovod(System):
    """Each gradient on its own; Horovod fuses those that are there."""

    name = "horovod"
    codec = "none"

    def __init__(self, job: Job) -> None:
        self._server = start(job.interface, job.timeout)

    def average(self, tensors: Sequence[torch.Tensor], release: Release) -> None:
        handles = [
            hvd.allreduce_async_(tensors[index], name=f"gradient.{index}", op=hvd.Average)
            for index in release.gradients()
        ]
        for handle in handles:
            hvd.synchronize(handle)
