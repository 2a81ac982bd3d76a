# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (imports come after the checks that they can work)
"""HiPress for TensorFlow.

    import hipress.tensorflow as hp

    hp.init()
    hp.broadcast_variables(model.variables, root_rank=0)
    with tf.GradientTape() as tape:
        loss = ...
    gradients = hp.DistributedGradientTape(tape, codec="onebit").gradient(loss, model.trainable_variables)

or `hp.DistributedOptimizer` instead of the tape. hipress.tensorflow.keras has the callbacks for `model.fit()`. Names
that Horovod has, too, have Horovod's meaning; HiPress adds `codec`, `topology`, `partitions` and `plan`.
"""

from __future__ import annotations

import importlib.util

from hipress.errors import Unsupported

if importlib.util.find_spec("tensorflow") is None:
    raise Unsupported("hipress.tensorflow needs TensorFlow, which is not installed: pip install 'tensorflow>=2.16'")

from hipress.tensorflow.library import load_operators

load_operators()  # its error names the missing part; other modules would fail on an unknown TensorFlow without a reason

from hipress import codecs
from hipress.adapter.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from hipress.adapter.reduce_ops import Adasum, Average, Max, Min, Product, Sum
from hipress.built import (
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
from hipress.errors import (
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
)
from hipress.horovod import absent
from hipress.runtime import (
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
from hipress.tensorflow import elastic
from hipress.tensorflow.collectives import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from hipress.tensorflow.compression import Compression
from hipress.tensorflow.failures import own_error
from hipress.tensorflow.joining import join
from hipress.tensorflow.model_gradients import write_gradients
from hipress.tensorflow.size_operators import local_rank_op, local_size_op, process_set_included_op, rank_op, size_op
from hipress.tensorflow.sync_batch_normalization import SyncBatchNormalization
from hipress.tensorflow.training.codec_states import codec_states, load_codec_states
from hipress.tensorflow.training.optimizer import DistributedOptimizer, PartialDistributedOptimizer
from hipress.tensorflow.training.state import (
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from hipress.tensorflow.training.synchronizer import GradientSynchronizer
from hipress.tensorflow.training.tape import DistributedGradientTape, PartialDistributedGradientTape

__getattr__ = absent.refusing("tensorflow")

__all__ = [
    "Adasum",
    "Average",
    "CodecWarning",
    "Compression",
    "CorruptPayload",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "DuplicateName",
    "GradientSynchronizer",
    "HipressError",
    "InvalidArgument",
    "Max",
    "Min",
    "Mismatch",
    "NotInitialized",
    "PartialDistributedGradientTape",
    "PartialDistributedOptimizer",
    "PeerLost",
    "ProcessSet",
    "Product",
    "Refused",
    "Sum",
    "SyncBatchNormalization",
    "Timeout",
    "TransportError",
    "Unsupported",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
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
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_codec_states",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "memory_stats",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "own_error",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
    "write_gradients",
]
