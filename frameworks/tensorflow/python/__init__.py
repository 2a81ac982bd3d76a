# SPDX-License-Identifier: Apache-2.0
"""HiPress for TensorFlow.

    import hipress.tensorflow as hp

    hp.init()
    model.compile(hp.DistributedOptimizer(optimizer, codec="onebit"), loss)
    model.fit(images, labels, callbacks=[hipress.tensorflow.keras.callbacks.BroadcastGlobalVariablesCallback(0)])

or, with loops of one's own, `hp.DistributedGradientTape` and `hp.broadcast_variables`. Names that Horovod has mean what
they mean there; `codec`, `topology`, `partitions` are new.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("tensorflow") is None:
    raise ModuleNotFoundError(
        "hipress.tensorflow needs TensorFlow, which is not installed: pip install 'hipress[tensorflow]'",
        name="tensorflow",
    )

from hipress.errors import (
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
from hipress.reduce_ops import Average, Sum
from hipress.runtime import (
    counters,
    cross_rank,
    cross_size,
    init,
    is_initialized,
    local_rank,
    local_size,
    memory_stats,
    rank,
    shutdown,
    size,
)
from hipress.tensorflow.collectives import allreduce, broadcast, grouped_allreduce
from hipress.tensorflow.failures import own_error
from hipress.tensorflow.optimizer import DistributedOptimizer
from hipress.tensorflow.state import (
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from hipress.tensorflow.synchronizer import GradientSynchronizer
from hipress.tensorflow.tape import DistributedGradientTape, PartialDistributedGradientTape

__all__ = [
    "Average",
    "CorruptPayload",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "DuplicateName",
    "GradientSynchronizer",
    "HipressError",
    "InvalidArgument",
    "Mismatch",
    "NotInitialized",
    "PartialDistributedGradientTape",
    "PeerLost",
    "Refused",
    "Sum",
    "Timeout",
    "TransportError",
    "Unsupported",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "counters",
    "cross_rank",
    "cross_size",
    "grouped_allreduce",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "memory_stats",
    "own_error",
    "rank",
    "shutdown",
    "size",
]
