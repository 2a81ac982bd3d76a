# SPDX-License-Identifier: Apache-2.0
"""The ranks that DiLoCo synchronises, over a process group of CPU tensors, such as Gloo's."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist

from hipress.adapter.agreement import agree_among
from hipress.torch.diloco.averaging import Averaging
from hipress.torch.diloco.group_averaging import GroupAveraging
from hipress.torch.diloco.group_failure import failing
from hipress.torch.diloco.group_gather import GroupGather
from hipress.torch.diloco.left_ranks import LeftRanks
from hipress.torch.diloco.ranks import Gather
from hipress.torch.diloco.shards import own_values
from hipress.torch.process_groups.agreement import gather_texts
from hipress.unfinished import Step


class GroupRanks:
    """See Ranks. What waits for other ranks does so as long as the group's timeout."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self.rank, self.world = group.rank(), group.size()

    def agree(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """See Ranks."""

        def gather(own: Any) -> list[Any]:
            with self._failing("while the ranks compared their arguments"):
                return [json.loads(each) for each in gather_texts(self._group, json.dumps(own))]

        agree_among(describe, gather, self.rank)

    def broadcast(self, values: Mapping[str, Any]) -> None:
        """See Ranks."""
        root = dist.get_global_rank(self._group, 0)
        for name, each in values.items():
            if isinstance(each, torch.Tensor):
                # A copy: it may be on a GPU, or a view with gaps.
                own = own_values(each)
                host = own.to("cpu", copy=True).contiguous()
                with self._failing(f"while rank 0 sent '{name}'"):
                    dist.broadcast(host, root, group=self._group)
                own.copy_(host)

    def gathers(self, sizes: Sequence[int]) -> Gather:
        """See Ranks. The zeros at the end of a buffer do not travel."""
        return GroupGather(self._group, sizes, self._left_ranks)

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """See Ranks."""
        return GroupAveraging(parameters, codec, topology, self._group, self._left_ranks)

    def leaves_with(self, step: Step) -> None:
        """See Ranks."""
        self._left_ranks.leaves_with(step)

    def leave(self, why: str) -> None:
        """See Ranks."""
        self._left_ranks.leave(why)

    def all_left(self) -> None:
        """See Ranks."""
        self._left_ranks.all_left()

    @functools.cached_property
    def _left_ranks(self) -> LeftRanks:
        """Made when the ranks have agreed: so all of them make it, and their numbers are equal."""
        return LeftRanks(self._group)

    def _failing(self, doing: str) -> AbstractContextManager[None]:
        return failing(self.rank, self.world, doing)
