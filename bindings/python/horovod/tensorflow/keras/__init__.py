# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras' names: `import hipress.horovod.tensorflow.keras as hvd`."""

from __future__ import annotations

from typing import Any

from hipress import tensorflow
from hipress.adapter.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from hipress.horovod import absent, names
from hipress.horovod.names import HorovodInternalError
from hipress.options.signatures import in_order
from hipress.tensorflow import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    keras,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
    start_timeline,
    stop_timeline,
)
from hipress.tensorflow.keras import *  # noqa: F403


def init(comm: Any = None, process_sets: Any = None) -> None:  # type: ignore[no-redef]
    """Joins the job; see hipress.init(). Raises Unsupported for another set than all ranks of the launcher."""
    names.init(comm, process_sets)


DistributedOptimizer = in_order(
    "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor op "
    "backward_passes_per_step average_aggregated_gradients num_groups groups process_set scale_local_gradients"
)(tensorflow.DistributedOptimizer)

__getattr__ = absent.refusing("tensorflow.keras")

__all__ = [
    *keras.__all__,
    "HorovodInternalError",
    "ProcessSet",
    "add_process_set",
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "remove_process_set",
    "rocm_built",
    "start_timeline",
    "stop_timeline",
]
