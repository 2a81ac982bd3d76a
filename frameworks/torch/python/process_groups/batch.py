# SPDX-License-Identifier: Apache-2.0
"""Some tensors on their way through an average, and what they need on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.torch.process_groups.group_calls import Work
from hipress.torch.process_groups.host_shards import HostShards
from hipress.torch.process_groups.layout import Layout
from hipress.torch.process_groups.low_rank import FactorBatch
from hipress.torch.process_groups.residuals import Floats, Key


@dataclass
class Batch:
    """Tensors that one call of GroupAverage.start() has handed over."""

    step: int
    factor: float
    """Of the sum over all ranks."""
    tensors: list[torch.Tensor]
    """Compressed ones, flat."""
    exact: list[torch.Tensor]
    """Those without a codec, flat."""
    layout: Layout
    done: torch.futures.Future[None]
    finish: Callable[[], None] | None

    values: list[Floats] = field(default_factory=list)
    """What this rank contributes, in float32, by the tensor's number in `layout`."""
    results: list[torch.Tensor] = field(default_factory=list)
    """Where the averages of these go; maybe the same memory."""
    encoded: list[Key] = field(default_factory=list)
    """Whose states have changed in this batch."""
    matrices: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    """Names and flat tensors of those that travel as factors."""
    factors: FactorBatch | None = None
    together: torch.Tensor | None = None
    """The exact ones, one behind the other, or this rank's share of them."""
    exact_work: Work = None
    work: Work = None
    sent: torch.Tensor | None = None
    """Kept until the collective has read it."""
    received: torch.Tensor | None = None
    blocks: list[NDArray[np.uint8]] = field(default_factory=list)
    """What comes from each rank at last: contributions with topology "allgather", else averages."""

    shards: HostShards | None = None
    """Topology "hierarchical": how the ranks of a host share the tensors."""
    rows: torch.Tensor | None = None
    row: torch.Tensor | None = None
