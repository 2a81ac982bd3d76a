# SPDX-License-Identifier: Apache-2.0
"""The ranks that measure together: what they tell each other, and how much time they have."""

from __future__ import annotations

import json
import time
from typing import Any

from hipress import _core


class Session:
    """All ranks make one at the same time, and call its methods in the same order."""

    def __init__(self, engine: _core.Engine, seconds: float) -> None:
        self.engine = engine
        self.rank = engine.rank
        self.world = engine.world_size
        self.seconds = seconds
        self._end = time.perf_counter() + seconds
        self._tensors = 0

    def gather(self, mine: Any) -> list[Any]:
        """What every rank has found, by rank; something that JSON can say."""
        gathered = self.engine.allgather("profile", json.dumps(mine).encode())
        return [json.loads(each) for each in gathered]

    def time_left(self) -> float:
        """Seconds, by rank 0's clock: all ranks get the same answer."""
        left: float = self.gather(self._end - time.perf_counter())[0]
        return left

    def numbered(self, name: str) -> str:
        """A name that no tensor of this session had before."""
        self._tensors += 1
        return f"profile {name} {self._tensors}"
