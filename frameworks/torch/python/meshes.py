# SPDX-License-Identifier: Apache-2.0
"""The process sets of a dimension of a DeviceMesh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hipress.adapter.process_sets import ProcessSet, add_of_each_rank
from hipress.errors import InvalidArgument

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def process_set_of(mesh: DeviceMesh) -> ProcessSet:
    """The process set of this rank in a dimension of a mesh, such as `process_set_of(mesh["replicate"])`.

    All ranks of the job call it: it registers the sets of all ranks in this dimension, unless they are registered.
    Torch's ranks must be those of HiPress, as under one launcher.

    Raises InvalidArgument for a mesh of several dimensions, or with ranks that the job does not have.
    """
    if mesh.ndim != 1:
        raise InvalidArgument(
            f"process_set_of() takes one dimension of a mesh, and this one has {mesh.ndim}: give mesh[NAME], where "
            f"NAME is one of {mesh.mesh_dim_names}"
        )
    return add_of_each_rank(mesh.mesh.tolist())
