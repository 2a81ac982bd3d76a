# SPDX-License-Identifier: Apache-2.0
"""The carrier of the tensors that an optimizer exchanges: HiPress' engine or a process group of CPU tensors."""

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
        """Averages these tensors over all ranks in place, and waits. The carrier knows their names and shapes.

        `compressed`: whether the codecs encode the values; they keep the residual for the next compressed average.
        Raises PeerLost, Timeout, CorruptPayload, TransportError.
        """

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """All ranks' `values` (uint8, shape [n], n equal on all ranks) as [world, n]. Raises as average()."""

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has sent. A process group counts only compressed and gathered values."""

    def state_dict(self) -> dict[str, Any] | None:
        """The codec states of this rank; None: the carrier cannot read them."""

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Goes on from the result of state_dict(); None: from empty states. Raises InvalidArgument."""


def carrier_of(kind: str, shapes: Mapping[str, torch.Size], travel: Travel, group: dist.ProcessGroup | None) -> Carrier:
    """Makes a carrier of float32 tensors. All ranks call it at the same time. `group` None: the engine carries.

    Raises InvalidArgument, NotInitialized; Mismatch if the ranks' tensors differ; Timeout if a rank does not call it.
    """
    if group is None:
        return EngineCarrier(kind, shapes, travel)
    return GroupCarrier(shapes, travel, group)
