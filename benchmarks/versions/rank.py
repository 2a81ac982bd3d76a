# SPDX-License-Identifier: Apache-2.0
"""A rank of versions.py. It uses only functions that all versions of HiPress have, and runs in one environment."""

import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hipress.torch as hp
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.torch import ddp
from hipress.torch.synchronizer import GradientSynchronizer

#: Number of synchronisations before the first turn.
WARM_UPS = 50
#: Columns of the matrices that DDP's hook averages; vectors would travel without a codec.
COLUMNS = 256


def engine(size: int, given: dict[str, Any]) -> Callable[[], None]:
    """A synchronisation by collectives of the engine."""
    names = [f"{size} bytes, {at}" for at in range(given["tensors"])]
    tensors = [(name, torch.ones(max(size // 4, 1))) for name in names]

    def average() -> None:
        for operation in [hp.allreduce_async_(tensor, name=name, codec=given["codec"]) for name, tensor in tensors]:
            operation.wait()

    return average


def listed(size: int, given: dict[str, Any]) -> Callable[[], None]:
    """A synchronisation of a list on which the ranks have agreed, as DistributedOptimizer does it."""
    tensors = [torch.randn(max(size // 4, 1)) for _ in range(given["tensors"])]
    named = [(f"{size} bytes, listed {at}", tensor) for at, tensor in enumerate(tensors)]
    synchronizer = GradientSynchronizer(named, SynchronizationOptions(codec=given["codec"]))

    def average() -> None:
        for operation in [synchronizer.submit(at, tensor) for at, tensor in enumerate(tensors)]:
            synchronizer.wait(operation)

    return average


class _Scaled(torch.nn.Module):
    """The gradient of each weight is its factor."""

    def __init__(self, shapes: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(shape)) for shape in shapes)
        self.factors = [torch.randn(shape) for shape in shapes]

    def forward(self) -> torch.Tensor:
        return sum((weight * factor).sum() for weight, factor in zip(self.weights, self.factors, strict=True))


def hook(size: int, given: dict[str, Any]) -> Callable[[], None]:
    """Forward and backward of DDP with HiPress' hook, over a process group of Gloo."""
    rows = max(size // (4 * COLUMNS), 1)
    model = DistributedDataParallel(_Scaled([(rows, COLUMNS)] * given["tensors"]))
    ddp.compress(model, codec=given["codec"])

    def average() -> None:
        model.zero_grad()
        model().backward()

    return average


def main() -> None:
    given = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    hp.init()
    if given["carrier"] == "gloo":
        where = f"tcp://127.0.0.1:{given['group_port']}"
        dist.init_process_group("gloo", init_method=where, rank=hp.rank(), world_size=hp.size())
    made = {"engine": engine, "list": listed, "gloo": hook}[given["carrier"]]
    averages = {size: made(size, given) for size in given["sizes"]}
    for average in averages.values():
        for _ in range(min(WARM_UPS, given["repeats"])):
            average()
    peer = socket.create_connection(("127.0.0.1", given["port"])).makefile("rw") if hp.rank() == 0 else None
    while True:
        # Rank 0 reads the size, and the others wait for it without using a processor.
        size = int(peer.readline() or 0) if peer else 0
        size = int(hp.broadcast(torch.tensor([size]), 0, name="size").item())
        if size == 0:
            return
        average = averages[size]
        average()
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(given["repeats"]):
            average()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        of_all = hp.allreduce(torch.tensor([processor], dtype=torch.float64), name="processor time").item() * hp.size()
        if peer:
            peer.write(json.dumps([wall / given["repeats"], of_all / given["repeats"]]) + "\n")
            peer.flush()


if __name__ == "__main__":
    main()
