# SPDX-License-Identifier: Apache-2.0
"""HiPress for PyTorch.

    import hipress.torch as hp

    hp.init()
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit")
    hp.broadcast_parameters(model.state_dict(), root_rank=0)

Names that Horovod has mean what they mean there; `codec`, `topology`, `partitions` are new.
"""

from __future__ import annotations

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
from hipress.torch.collectives import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    poll,
    synchronize,
)
from hipress.torch.optimizer import DistributedOptimizer
from hipress.torch.registered import register_codecs
from hipress.torch.state import broadcast_object, broadcast_optimizer_state, broadcast_parameters
from hipress.torch.synchronizer import GradientSynchronizer

register_codecs()

__all__ = [
    "Average",
    "CorruptPayload",
    "DistributedOptimizer",
    "DuplicateName",
    "GradientSynchronizer",
    "HipressError",
    "InvalidArgument",
    "Mismatch",
    "NotInitialized",
    "PeerLost",
    "Refused",
    "Sum",
    "Timeout",
    "TransportError",
    "Unsupported",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "counters",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "memory_stats",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
]
