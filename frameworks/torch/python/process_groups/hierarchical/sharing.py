# SPDX-License-Identifier: Apache-2.0
"""The raw parts of topology "hierarchical", within a host: adding before the exchange, collecting after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.batch import Batch
from hipress.torch.process_groups.exact_values import ExactValues
from hipress.torch.process_groups.group_calls import NewGroup
from hipress.torch.process_groups.hierarchical.shards import HostShards, least_loaded, pieces
from hipress.torch.process_groups.side import Side


class HostSharing:
    """The ranks of a host share the tensors of a batch."""

    def __init__(self, neighbours: Sequence[int], new_group: NewGroup, side: Side) -> None:
        self._side = side
        # Two stages start collectives.
        self._reducing, self._gathering = new_group(neighbours), new_group(neighbours)
        self._ranks = len(neighbours)
        self._local_rank: int = self._reducing.rank()
        self._counts: dict[str, int] = {}
        self._first_owners: dict[str, int] = {}
        self._owned = [0] * self._ranks
        self._shards: dict[Any, HostShards] = {}

    def add(self, name: str, count: int) -> None:
        """A tensor that travels compressed."""
        self._counts[name] = count
        self._first_owners[name] = least_loaded(self._owned)
        for rank, (_, length) in pieces(count, self._ranks, self._first_owners[name]).items():
            self._owned[rank] += length

    def piece(self, name: str) -> tuple[int, int] | None:
        """First element and number of elements of this rank's piece of a tensor."""
        return pieces(self._counts[name], self._ranks, self._first_owners[name]).get(self._local_rank)

    def shards(self, names: tuple[str, ...], exact: ExactValues) -> HostShards:
        """The rows for compressed tensors with these names, and for exact ones."""
        sizes = {dtype: sum(map(torch.Tensor.numel, tensors)) for dtype, tensors in exact.of_type.items()}
        key = (names, tuple(sizes.items()))
        if key not in self._shards:
            counts, owners = [self._counts[name] for name in names], [self._first_owners[name] for name in names]
            self._shards[key] = HostShards(counts, owners, sizes, self._ranks)
        return self._shards[key]

    def reduce(self, batch: Batch) -> None:
        """Starts adding the values of the host's ranks."""
        assert batch.shards is not None
        batch.rows = batch.shards.rows(batch.tensors, batch.exact, batch.factor)
        batch.row = [torch.empty_like(rows[0]) for rows in batch.rows]
        for memory in (*batch.rows, *batch.row):
            self._side.used_by_all(memory)
        self._side.before_collective()
        batch.works = [
            group_calls.reduce_scatter(self._reducing, row, rows.view(-1))
            for row, rows in zip(batch.row, batch.rows, strict=True)
        ]

    def take_share(self, batch: Batch) -> None:
        """Waits for the sums of this rank's share, which it contributes; its average goes to the same place."""
        assert batch.shards is not None
        for work in batch.works:
            work.wait()
        batch.works = []
        own = list(batch.shards.pieces_of(batch.row, self._local_rank).values())
        batch.values = [self._side.values(piece) for piece in own]
        batch.together, batch.has_factor = batch.shards.exact_of(batch.row), True

    def gather(self, batch: Batch) -> None:
        """Starts collecting the shares' averages from the host's ranks."""
        if batch.row:
            self._side.write_verdict(batch.row[0][-1:], batch.changes)
        self._side.before_collective()
        batch.works = [
            group_calls.all_gather(self._gathering, rows.view(-1), row)
            for row, rows in zip(batch.row, batch.rows, strict=True)
        ]

    def finish(self, batch: Batch) -> None:
        """Waits for them, and writes all tensors."""
        assert batch.shards is not None
        for work in batch.works:
            work.wait()
        if batch.rows:
            self._side.read_verdicts(batch.rows[0][:, -1], batch.changes)
        batch.shards.put_back(batch.rows, batch.tensors, batch.exact)
