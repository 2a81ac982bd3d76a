# SPDX-License-Identifier: Apache-2.0
"""Process groups of ranks that share the first GPU.

Gloo takes tensors of GPUs. NCCL wants a GPU for each rank of a host, so here every rank says that it is a host.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from tests.compll.emit.cuda.device import require_gpu

DEVICE = torch.device("cuda", 0)
#: What carries the tensors of the GPU.
CARRIERS = ("gloo", "nccl")


def required() -> None:
    """Skips the test without a GPU; under `make test-gpu` it fails."""
    require_gpu(None if torch.cuda.is_available() else "torch finds no GPU, or was built without CUDA")


def sharing_the_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that takes a folder and a carrier, makes a group of all ranks there, and calls `function` with
    the rank instead of them. Gloo carries tensors of the processor.

    All objects that `function` makes are gone before the group is, as models that outlive their group may hang.
    """

    @functools.wraps(function)
    def inside(folder: str, carrier: str, *arguments: Any, **options: Any) -> Any:
        rank, world = int(os.environ["HIPRESS_RANK"]), int(os.environ["HIPRESS_SIZE"])
        os.environ.update(NCCL_HOSTID=f"rank {rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
        torch.cuda.set_device(DEVICE)
        dist.init_process_group(
            f"cpu:gloo,cuda:{carrier}",
            store=dist.FileStore(f"{folder}/{carrier}", world),
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=120),
        )
        try:
            return function(rank, *arguments, **options)
        finally:
            dist.destroy_process_group()

    return inside
