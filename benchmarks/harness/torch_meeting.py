# SPDX-License-Identifier: Apache-2.0
"""The meeting of ranks in torch.distributed over Gloo, and over NCCL for tensors on a GPU that the ranks share."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

# The defaults of this module's functions are the group of the moment when it is imported, and the first optimizer
# imports it. Imported before there is a group, it does not keep the group's threads alive after
# destroy_process_group(): at the end of the process they would release Python objects, which aborts it (torch 2.13).
import torch.distributed.nn

from benchmarks.harness.meeting import Meeting

T = TypeVar("T")


def join(timeout_s: float, port: int = 0, *, nccl: bool = False) -> None:
    """Joins as the rank in the environment. `port`: the rendezvous port on this machine; 0: the environment has it.
    `nccl`: NCCL carries tensors on the GPU, and the ranks share one GPU."""
    # One thread for all systems: more threads would compete with the other ranks of this machine.
    torch.set_num_threads(1)
    address = f"127.0.0.1:{port}" if port else f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if nccl:
        # NCCL refuses two ranks on one GPU unless they seem to be on different hosts.
        os.environ.setdefault("NCCL_HOSTID", f"host-{os.environ['HIPRESS_RANK']}")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
        os.environ.setdefault("NCCL_IB_DISABLE", "1")
        torch.cuda.set_device(0)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if nccl else "gloo",
        init_method=f"tcp://{address}",
        rank=int(os.environ["HIPRESS_RANK"]),
        world_size=int(os.environ["HIPRESS_SIZE"]),
        timeout=timedelta(seconds=timeout_s),
    )


def gather(mine: T) -> list[T]:
    """The values of all ranks, in rank order."""
    every: list[T] = [mine] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return every


class TorchMeeting(Meeting):
    """A meeting of the ranks that have joined."""

    def __init__(self) -> None:
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def gather(self, mine: T) -> list[T]:
        return gather(mine)

    def barrier(self) -> None:
        dist.barrier()
