# SPDX-License-Identifier: Apache-2.0
"""Who carries what an optimizer exchanges: HiPress' engine or a process group of CPU tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.distributed as dist

from hipress.torch.optim.engine_carrier import EngineCarrier
from hipress.torch.optim.group_carrier import GroupCarrier
from hipress.torch.optim.travel import Travel


class Carrier(Protocol):
    """Averages a fixed list of tensors, exactly or with codecs, and gathers bytes."""

    world: int
    rank: int

    def agree(self, described: Mapping[str, str]) -> None:
        """Raises Mismatch, on all ranks, with the first difference between the ranks' values."""

    def average(self, values: Mapping[str, torch.Tensor], *, compressed: bool) -> None:
        """Averages these tensors over all ranks in place, and waits. Names and shapes are those of the list.

        `compressed`: with the codecs, which keep what they drop for the next compressed average. Raises PeerLost,
        Timeout, CorruptPayload, TransportError.
        """

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """All ranks' `values`, uint8 of shape [n], n the same on all ranks: [world, n]. Raises as average()."""

    @property
    def sent_bytes(self) -> int:
        """What this rank has sent; over a process group only what was compressed or gathered."""

    def state_dict(self) -> dict[str, Any] | None:
        """What codecs remember on this rank; None: it cannot be read."""

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Goes on from it; None: codecs have dropped nothing yet. Raises InvalidArgument."""


def carrier_of(kind: str, shapes: Mapping[str, torch.Size], travel: Travel, group: dist.ProcessGroup | None) -> Carrier:
    """All ranks make one at the same time, for float32 tensors. `group`: None: the engine.

    Raises InvalidArgument, NotInitialized; Mismatch if the ranks' lists differ; Timeout if a rank makes none.
    """
    if group is None:
        return EngineCarrier(kind, shapes, travel)
    return GroupCarrier(shapes, travel, group)
