# SPDX-License-Identifier: Apache-2.0
"""The ranks that measure together: their exchange of results, and their time budget."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from hipress import _core


class Session:
    """A measurement of all ranks. They create it at the same time and call its methods in the same order."""

    def __init__(self, engine: _core.Engine, seconds: float, stage: Callable[[str], None] | None = None) -> None:
        """`stage` is called on this rank with the next part of the measurement."""
        self.engine = engine
        self.stage = stage if stage is not None else lambda _what: None
        self.rank = engine.rank
        self.world = engine.world_size
        self.seconds = seconds
        self._end = time.perf_counter() + seconds
        self._tensors = 0

    def gather(self, mine: Any) -> list[Any]:
        """The JSON values `mine` of all ranks, in rank order."""
        gathered = self.engine.allgather("profile", json.dumps(mine).encode())
        return [json.loads(each) for each in gathered]

    def time_left(self) -> float:
        """The seconds left by rank 0's clock; all ranks get the same number."""
        left: float = self.gather(self._end - time.perf_counter())[0]
        return left

    def numbered(self, name: str) -> str:
        """A name that this session has not used before; another session of the job may have used it."""
        self._tensors += 1
        return f"profile {name} {self._tensors}"
