# SPDX-License-Identifier: Apache-2.0
"""A dimension of a DeviceMesh is a process set for each of its groups."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import hipress.torch as hp
from hipress.errors import InvalidArgument
from tests.ranks import free_port
from tests.torch.ranks import run

pytestmark = pytest.mark.slow


def _mesh(port: int) -> list[object]:
    hp.init()
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=where, rank=hp.rank(), world_size=hp.size())
    try:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        sets = [hp.process_set_of(mesh[name]) for name in ("replicate", "shard")]
        assert hp.process_set_of(mesh["replicate"]) is sets[0]
        own = torch.tensor([float(hp.rank())])
        sums = [float(hp.allreduce(own, op=hp.Sum, process_set=each)) for each in sets]
        with pytest.raises(InvalidArgument, match=r"give mesh\[NAME\], where NAME is one of \('replicate', 'shard'\)"):
            hp.process_set_of(mesh)
        everybody = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
        assert hp.process_set_of(everybody) is hp.global_process_set
        return [[each.ranks for each in sets], sums]
    finally:
        dist.destroy_process_group()


def test_each_dimension_has_a_set_for_each_group() -> None:
    results = run(_mesh, 4, free_port())
    assert results == [
        [[[0, 2], [0, 1]], [2.0, 1.0]],
        [[[1, 3], [0, 1]], [4.0, 1.0]],
        [[[0, 2], [2, 3]], [2.0, 5.0]],
        [[[1, 3], [2, 3]], [4.0, 5.0]],
    ]
