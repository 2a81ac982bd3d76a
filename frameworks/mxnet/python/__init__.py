# SPDX-License-Identifier: Apache-2.0
"""HiPress for MXNet 1.9.

    import hipress.mxnet as hp

    hp.init()
    hp.broadcast_parameters(net.collect_params(), root_rank=0)
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, codec="onebit")

Names that Horovod has mean what they mean there; `codec`, `topology`, `partitions` are new.
"""

from __future__ import annotations

from hipress.mxnet.required import import_mxnet

import_mxnet()

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
from hipress.mxnet.collectives import allreduce, allreduce_, broadcast, broadcast_  # noqa: E402
from hipress.mxnet.kvstore import Hipress  # noqa: E402
from hipress.mxnet.lifetime import init, shutdown  # noqa: E402
from hipress.mxnet.objects import broadcast_object  # noqa: E402
from hipress.mxnet.optimizer import DistributedOptimizer  # noqa: E402
from hipress.mxnet.options import Compression  # noqa: E402
from hipress.mxnet.parameters import broadcast_parameters  # noqa: E402
from hipress.mxnet.trainer import DistributedTrainer  # noqa: E402
from hipress.reduce_ops import Average, Sum  # noqa: E402
from hipress.runtime import (  # noqa: E402
    counters,
    cross_rank,
    cross_size,
    is_initialized,
    local_rank,
    local_size,
    memory_stats,
    rank,
    size,
)

__all__ = [
    "Average",
    "Compression",
    "CorruptPayload",
    "DistributedOptimizer",
    "DistributedTrainer",
    "DuplicateName",
    "Hipress",
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
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "counters",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "memory_stats",
    "rank",
    "shutdown",
    "size",
]
