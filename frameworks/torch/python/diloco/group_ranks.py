# SPDX-License-Identifier: Apache-2.0
"""The ranks that DiLoCo synchronises, over a process group of CPU tensors, such as Gloo's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from hipress.adapter.agreement import agree_among
from hipress.errors import HipressError, InvalidArgument, TransportError, Unsupported
from hipress.torch.diloco.averaging import Averaging, Values
from hipress.torch.diloco.ranks import Gather
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.agreement import gather_texts
from hipress.torch.process_groups.average import GroupAverage, TensorShape
from hipress.torch.process_groups.options import GroupOptions

_TOPOLOGIES = ("ps", "allgather")


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
                host = each.detach().to("cpu", copy=True).contiguous()
                with self._failing(f"while rank 0 sent '{name}'"):
                    dist.broadcast(host, root, group=self._group)
                with torch.no_grad():
                    each.copy_(host)

    def gathers(self, sizes: Sequence[int]) -> Gather:
        """See Ranks. Whole buffers travel: a group's collectives have blocks of equal size."""

        def gather(fragment: int, message: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
            gathered = torch.empty(self.world * sizes[fragment], dtype=torch.uint8)
            doing = f"while it gathered fragment {fragment}"
            with self._failing(doing):
                work = group_calls.all_gather(self._group, gathered, message)

            def arrived() -> list[torch.Tensor]:
                with self._failing(doing):
                    work.wait()
                return list(gathered.reshape(self.world, -1))

            return arrived

        return gather

    def dense(self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str) -> Averaging:
        """See Ranks."""
        return _GroupAveraging(parameters, codec, topology, self._group)

    @contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        try:
            yield
        except HipressError:
            raise
        except RuntimeError as error:  # of Gloo, also for a timeout
            raise TransportError(
                f"the process group failed on rank {self.rank} of {self.world} {doing}: {error}; see the output of the "
                "other ranks, and start again from the last checkpoint"
            ) from error


class _GroupAveraging:
    """See Averaging. The tensors of a fragment are one batch."""

    def __init__(
        self, parameters: Mapping[str, torch.Tensor], codec: str, topology: str, group: dist.ProcessGroup
    ) -> None:
        if topology not in _TOPOLOGIES:
            raise InvalidArgument(
                f"topology={topology!r}: over a process group DiLoCo() has {' and '.join(map(repr, _TOPOLOGIES))}"
            )
        for name, each in parameters.items():
            if each.dtype != torch.float32:
                raise Unsupported(
                    f"parameter '{name}' is of type {each.dtype}: over a process group DiLoCo() takes float32 only"
                )
        shapes = {name: TensorShape(each.numel(), 4, each.dim()) for name, each in parameters.items()}
        self._average = GroupAverage(shapes, group, GroupOptions(codec=codec, topology=topology, compress_vectors=True))
        if self._average.keeps_states:
            raise Unsupported(
                f"codec={codec!r} holds values back: over a process group DiLoCo() would lose them at a restart; give "
                "it error_feedback=false, another codec or a SparseLoCo, or leave out the group"
            )
        self._exchanges = 0

    def start(self, fragment: int, values: Values) -> Callable[[], Values]:
        """See Averaging."""
        done = self._average.start(list(values.items()), self._exchanges)
        self._exchanges += 1

        def arrived() -> Values:
            done.wait()
            return values

        return arrived

    def residuals(self) -> Values | None:
        """See Averaging: there are none."""
        return None

    def load_residuals(self, residuals: Mapping[str, torch.Tensor]) -> None:
        """See Averaging."""
