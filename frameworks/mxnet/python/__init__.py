# SPDX-License-Identifier: Apache-2.0
"""HiPress for MXNet 1.9.

    import hipress.mxnet as hp

    hp.init()
    hp.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, codec="onebit")

Names that Horovod has, too, have Horovod's meaning; HiPress adds `codec`, `topology`, `partitions` and `plan`.
"""

from __future__ import annotations

from hipress.mxnet.required import import_mxnet

import_mxnet()

from hipress import codecs  # noqa: E402
from hipress.adapter.objects import allgather_object, broadcast_object  # noqa: E402
from hipress.adapter.process_sets import (  # noqa: E402
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from hipress.adapter.reduce_ops import Adasum, Average, Max, Min, Product, Sum  # noqa: E402
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
from hipress.mxnet.collectives import (  # noqa: E402
    allreduce,
    allreduce_,
    broadcast,
    broadcast_,
    grouped_allreduce,
    grouped_allreduce_,
    synchronize,
)
from hipress.mxnet.compression import Compression  # noqa: E402
from hipress.mxnet.exchanges import (  # noqa: E402
    allgather,
    alltoall,
    barrier,
    grouped_allgather,
    grouped_reducescatter,
    reducescatter,
)
from hipress.mxnet.kept_states import codec_states, load_codec_states  # noqa: E402
from hipress.mxnet.kvstore import Hipress  # noqa: E402
from hipress.mxnet.lifetime import init, shutdown  # noqa: E402
from hipress.mxnet.model_gradients import write_gradients  # noqa: E402
from hipress.mxnet.optimizer import DistributedOptimizer  # noqa: E402
from hipress.mxnet.optimizer_state import broadcast_optimizer_state  # noqa: E402
from hipress.mxnet.parameters import broadcast_parameters  # noqa: E402
from hipress.mxnet.trainer import DistributedTrainer  # noqa: E402
from hipress.runtime import (  # noqa: E402
    counters,
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    memory_stats,
    rank,
    size,
    start_timeline,
    stop_timeline,
)

__getattr__ = absent.refusing("mxnet")

__all__ = [
    "Adasum",
    "Average",
    "CodecWarning",
    "Compression",
    "CorruptPayload",
    "DistributedOptimizer",
    "DistributedTrainer",
    "DuplicateName",
    "Hipress",
    "HipressError",
    "InvalidArgument",
    "Max",
    "Min",
    "Mismatch",
    "NotInitialized",
    "PeerLost",
    "ProcessSet",
    "Product",
    "Refused",
    "Sum",
    "Timeout",
    "TransportError",
    "Unsupported",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
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
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_codec_states",
    "local_rank",
    "local_size",
    "memory_stats",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
    "write_gradients",
]
