# SPDX-License-Identifier: Apache-2.0
"""A rank that knows the backend "hipress" by its name alone: `python by_name.py RANK WORLD NAME STORE [left]`.

With `left` it ends without destroy_process_group().
"""

from __future__ import annotations

import datetime
import sys

import torch
import torch.distributed as dist
from torch.torch_version import TorchVersion

if TorchVersion(torch.__version__) < TorchVersion("2.14"):
    import hipress.torch  # noqa: F401  # torch looks for backends from 2.14 on


def main(rank: int, world: int, name: str, store: str, *how: str) -> None:
    """Starts the group, averages through it, and ends it."""
    torch.set_num_threads(1)
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group(name, store=dist.FileStore(store, world), rank=rank, world_size=world, timeout=limit)
    assert "hipress.torch" in sys.modules
    exact = torch.full((5000,), rank + 1.0)
    dist.all_reduce(exact)
    assert torch.equal(exact, torch.full((5000,), world * (world + 1) / 2))

    from hipress.torch.process_groups import gradients

    with gradients("weight"):
        work = dist.all_reduce(torch.randn(50_000), async_op=True)
    work.wait()
    group = dist.group.WORLD
    print(f"{dist.get_backend()} has sent {getattr(group, 'sent_bytes', 0)} bytes")
    dist.barrier()
    if "left" not in how:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
