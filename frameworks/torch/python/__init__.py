# SPDX-License-Identifier: Apache-2.0
"""HiPress for PyTorch.

    import hipress.torch as hp

    hp.init()
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit")
    hp.broadcast_parameters(model.state_dict(), root_rank=0)

Names that Horovod has mean what they mean there; `codec`, `topology`, `partitions` are new.
"""

from __future__ import annotations

from hipress.torch.required import import_torch

import_torch()

from hipress.errors import (  # noqa: E402
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
from hipress.reduce_ops import Average, Sum  # noqa: E402
from hipress.runtime import (  # noqa: E402
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
from hipress.torch.collectives import (  # noqa: E402
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
from hipress.torch.optimizer import DistributedOptimizer  # noqa: E402
from hipress.torch.registered import register_codecs  # noqa: E402
from hipress.torch.state import broadcast_object, broadcast_optimizer_state, broadcast_parameters  # noqa: E402
from hipress.torch.synchronizer import GradientSynchronizer  # noqa: E402

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
