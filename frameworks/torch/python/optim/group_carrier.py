# SPDX-License-Identifier: Apache-2.0
"""The carrier of an optimizer's tensors over a process group of CPU tensors, such as Gloo's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hipress.options.warmup import Warmup
from hipress.torch.optim.travel import Travel
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.scaling.loss_scale import UNSCALED


class GroupCarrier:
    """See Carrier. All tensors of a step are one batch."""

    def __init__(self, shapes: Mapping[str, torch.Size], travel: Travel, group: dist.ProcessGroup) -> None:
        self._group = group
        self.world, self.rank = group.size(), group.rank()
        self._gathered_bytes = 0
        # GroupAverage sends step 0 exactly and compresses all later steps: the step number chooses between both.
        options = GroupOptions(
            codec=travel.codec,
            codec_for=travel.codec_for,
            topology="ps",  # as in the papers: an aggregator encodes the average, and keeps what that loses
            min_compress_bytes=travel.min_compress_bytes,
            compress_vectors=True,
            warmup=Warmup(1),
            scaler=UNSCALED,
        )
        listed = {name: TensorShape(shape.numel(), torch.float32, len(shape)) for name, shape in shapes.items()}
        self._average = GroupAverage(listed, group, options)
        self._compressed_steps = 0

    def agree(self, described: Mapping[str, str]) -> None:
        """See Carrier."""
        check_alike(self._group, "\n".join(f"{key} {value}" for key, value in described.items()))

    def average(self, values: Mapping[str, torch.Tensor], *, compressed: bool) -> None:
        """See Carrier."""
        if compressed:
            self._compressed_steps += 1
        self._average.start(list(values.items()), self._compressed_steps if compressed else 0).wait()

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """See Carrier."""
        gathered = torch.empty(self.world * values.numel(), dtype=torch.uint8)
        group_calls.all_gather(self._group, gathered, values).wait()
        self._gathered_bytes += (self.world - 1) * values.numel()
        return gathered.reshape(self.world, -1)

    @property
    def sent_bytes(self) -> int:
        """See Carrier."""
        return self._average.sent_bytes + self._gathered_bytes

    def state_dict(self) -> dict[str, Any] | None:
        """See Carrier."""
        # Values become tensors: torch.load() reads NumPy arrays only from trusted files.
        kept = {
            key: {name: torch.from_numpy(values) for name, values in states.items()}
            for key, states in self._average.state_dict().items()
        }
        return {"steps": self._compressed_steps, "states": kept}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """See Carrier."""
        kept = {} if state is None else state["states"]
        self._average.load_state_dict(
            {key: {name: np.asarray(values) for name, values in states.items()} for key, states in kept.items()}
        )
        self._compressed_steps = 0 if state is None else int(state["steps"])
