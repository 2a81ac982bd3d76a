# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel's `join(divide_by_initial_world_size=False)`: the average of the ranks that have inputs left.

torch tells the divisor to its own averages only, so the ranks count themselves, once a step.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from hipress.torch.installed.private_names import GradBucket, divides_by_all_ranks, joins, running_backward_pass
from hipress.torch.process_groups import group_calls


class Joining:
    """Scales this rank's gradients such that their average over all ranks is that over the ranks with inputs."""

    def __init__(self, model: DistributedDataParallel | None) -> None:
        # Not the model: its reducer holds the hook's state, and no garbage collector sees that.
        self._model = None if model is None else weakref.ref(model)
        self._factor: Any = 1.0

    @property
    def is_on(self) -> bool:
        """Whether some ranks may have joined: they train no more, and give zeros."""
        model = None if self._model is None else self._model()
        return model is not None and joins(model)

    def scale(self, bucket: GradBucket) -> None:
        """Call it for each bucket before its average starts. What codecs hold back is then in the same unit."""
        model = None if self._model is None else self._model()
        if model is None or not joins(model) or divides_by_all_ranks(model):
            return
        buffer = bucket.buffer()
        if bucket.index() == 0:
            # A rank that has joined gives its zeros outside of a backward pass.
            has_inputs = running_backward_pass() != -1
            count = torch.full((1,), float(has_inputs), device=buffer.device)
            group_calls.all_reduce(model.process_group, count).wait()
            factor = model.process_group.size() / count[0]
            self._factor = factor if buffer.is_cuda else float(factor)
        buffer.mul_(self._factor)
