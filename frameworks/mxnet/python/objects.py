# SPDX-License-Identifier: Apache-2.0
"""Any object that pickle takes, from one rank to all."""

from __future__ import annotations

import pickle
from typing import Any

import mxnet as mx
import numpy as np

from hipress import runtime
from hipress.mxnet.collectives import broadcast_


def broadcast_object(obj: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Rank `root_rank`'s `obj`, on every rank. Other ranks' `obj` is ignored. Waits for it."""
    label = name or "object"
    is_root = runtime.rank() == root_rank
    payload = np.frombuffer(pickle.dumps(obj) if is_root else b"", dtype=np.uint8)
    size = broadcast_(mx.nd.array([payload.size], dtype=np.int64), root_rank, f"{label}.size").asscalar()
    data = mx.nd.array(payload, dtype=np.uint8) if is_root else mx.nd.zeros(int(size), dtype=np.uint8)
    broadcast_(data, root_rank, f"{label}.bytes")
    received = data.asnumpy().tobytes()
    return obj if is_root else pickle.loads(received)
