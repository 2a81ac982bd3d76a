# SPDX-License-Identifier: Apache-2.0
"""The ranks that DiLoCo synchronises, over HiPress' engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch

from hipress import runtime
from hipress.adapter.agreement import agree
from hipress.torch.collectives import allgather_async
from hipress.torch.diloco.averaging import Averaging, DenseAveraging
from hipress.torch.state import broadcast_parameters


class Ranks(Protocol):
    """Who they are, and what carries their values. All of them call each method in one order."""

    rank: int
    world: int

    def agree(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """Raises Mismatch, on all ranks, with the first difference; see hipress.adapter.agreement.agree()."""

    def broadcast(self, values: Mapping[str, Any]) -> None:
        """Gives all ranks rank 0's tensors, in place; other values stay."""

    def gather(self, payload: torch.Tensor, name: str) -> Callable[[], Sequence[torch.Tensor]]:
        """Begins to collect all ranks' `payload`, uint8 of shape [n], n the same on all; returns what waits for them.

        `name`: of what they are, for errors. That raises PeerLost, Timeout, TransportError.
        """

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """What averages each value. Raises InvalidArgument, Unsupported."""


class EngineRanks:
    """See Ranks. Raises NotInitialized."""

    def __init__(self) -> None:
        process = runtime.current()
        self.rank, self.world = process.place.rank, process.place.size
        self._name = process.numbered("diloco.gathered")

    def agree(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """See Ranks."""
        agree(describe)

    def broadcast(self, values: Mapping[str, Any]) -> None:
        """See Ranks."""
        broadcast_parameters(values, root_rank=0)

    def gather(self, payload: torch.Tensor, name: str) -> Callable[[], Sequence[torch.Tensor]]:
        """See Ranks."""
        operation = allgather_async(payload.reshape(1, -1), name=f"{self._name}.{name}")
        return lambda: list(operation.wait())

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """See Ranks."""
        return DenseAveraging(parameters, codec, topology)
