# SPDX-License-Identifier: Apache-2.0
"""Any object that pickle takes, from one rank to all or from all to all."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from hipress import collectives, runtime


def broadcast_object(value: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Rank `root_rank`'s `value`, on every rank. Other ranks' `value` is ignored."""
    label = name or "object"
    is_root = runtime.rank() == root_rank
    payload = np.frombuffer(bytearray(pickle.dumps(value)) if is_root else b"", np.uint8)
    size = np.array([payload.size], np.int64)
    collectives.broadcast(size, size, root_rank=root_rank, name=f"{label}.size").wait()
    if not is_root:
        payload = np.empty(int(size[0]), np.uint8)
    collectives.broadcast(payload, payload, root_rank=root_rank, name=f"{label}.bytes").wait()
    return value if is_root else pickle.loads(payload.tobytes())


def allgather_object(value: Any, name: str | None = None) -> list[Any]:
    """The `value` of every rank, by rank."""
    label = name or "object"
    payload = np.frombuffer(pickle.dumps(value), np.uint8)
    sizes = collectives.allgather(np.array([payload.size], np.int64), name=f"{label}.sizes")
    gathered = collectives.allgather(payload, name=f"{label}.bytes").wait()
    parts = np.split(gathered, np.cumsum(sizes.wait())[:-1])
    return [pickle.loads(part.tobytes()) for part in parts]
