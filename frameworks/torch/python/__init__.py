# SPDX-License-Identifier: Apache-2.0
"""HiPress for PyTorch.

    import hipress.torch as hp

    hp.init()
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit")
    hp.broadcast_parameters(model.state_dict(), root_rank=0)

Names that Horovod has, too, have Horovod's meaning; HiPress adds `codec`, `topology`, `partitions` and `plan`.
"""

from __future__ import annotations

from hipress.torch.installed.required import import_torch

import_torch()

from hipress import codecs  # noqa: E402
from hipress.adapter.objects import (  # noqa: E402
    allgather_object,
    broadcast_object,
)
from hipress.adapter.operations import poll, synchronize  # noqa: E402
from hipress.adapter.process_sets import (  # noqa: E402
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from hipress.adapter.reduce_ops import (  # noqa: E402
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
)
from hipress.built import (  # noqa: E402
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from hipress.errors import (  # noqa: E402
    CodecWarning,
    CorruptPayload,
    DuplicateName,
    HipressError,
    InvalidArgument,
    Mismatch,
    NotInitialized,
    PeerLost,
    Refused,
    Timeout,
    TransportError,
    Unsupported,
)
from hipress.horovod import absent  # noqa: E402
from hipress.options.warmup import Warmup  # noqa: E402
from hipress.runtime import (  # noqa: E402
    counters,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    memory_stats,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from hipress.torch import elastic  # noqa: E402
from hipress.torch.collectives import (  # noqa: E402
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    reducescatter_async,
    sparse_allreduce_async,
)
from hipress.torch.compression import Compression  # noqa: E402
from hipress.torch.differentiable import (  # noqa: E402
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from hipress.torch.diloco import DiLoCo  # noqa: E402
from hipress.torch.installed.registered import register_codecs  # noqa: E402
from hipress.torch.joining import join  # noqa: E402
from hipress.torch.kept_states import codec_states, load_codec_states  # noqa: E402
from hipress.torch.layers.sync_batch_norm import SyncBatchNorm  # noqa: E402
from hipress.torch.meshes import process_set_of  # noqa: E402
from hipress.torch.model_gradients import write_gradients  # noqa: E402
from hipress.torch.optimizer import DistributedOptimizer  # noqa: E402
from hipress.torch.python_codecs import register_codec, register_compressor  # noqa: E402
from hipress.torch.state import (  # noqa: E402
    broadcast_optimizer_state,
    broadcast_parameters,
)
from hipress.torch.states.rank_states import RankStates  # noqa: E402
from hipress.torch.synchronizer import GradientSynchronizer  # noqa: E402
from hipress.torch.watching.watched import metrics, watch  # noqa: E402
from hipress.torch.weight_stream import WeightStream  # noqa: E402

register_codecs()

__getattr__ = absent.refusing("torch")

__all__ = [
    "Adasum",
    "Average",
    "CodecWarning",
    "Compression",
    "CorruptPayload",
    "DiLoCo",
    "DistributedOptimizer",
    "DuplicateName",
    "GradientSynchronizer",
    "HipressError",
    "InvalidArgument",
    "Max",
    "Min",
    "Mismatch",
    "NotInitialized",
    "PeerLost",
    "ProcessSet",
    "Product",
    "RankStates",
    "Refused",
    "Sum",
    "SyncBatchNorm",
    "Timeout",
    "TransportError",
    "Unsupported",
    "Warmup",
    "WeightStream",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "codec_states",
    "codecs",
    "counters",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_codec_states",
    "local_rank",
    "local_size",
    "memory_stats",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "process_set_of",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "register_codec",
    "register_compressor",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
    "watch",
    "write_gradients",
]
