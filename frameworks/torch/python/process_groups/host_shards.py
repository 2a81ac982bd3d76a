# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a host share the elements of some tensors: each averages its share with its peers on other hosts.

A tensor is cut into one piece per rank of the host, and a rank has the same piece in every batch, since what codecs
remember is kept for its elements. A row has the pieces of one rank, then its part of the exact tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hipress._library import load_core

_core = load_core()  # once: several threads use it


def pieces(count: int, ranks: int, first_owner: int) -> dict[int, tuple[int, int]]:
    """First element and number of elements of each local rank's piece of a tensor; a small one is in one piece."""
    ranges = _core.split_elements(count, ranks)
    return {(first_owner + index) % ranks: each for index, each in enumerate(ranges)}


class HostShards:
    """Rows for some tensors of a batch."""

    def __init__(self, counts: Sequence[int], first_owners: Sequence[int], exact: Sequence[int], ranks: int) -> None:
        """`counts`, `first_owners`: of compressed tensors; `exact`: numbers of elements of the exact ones."""
        self._ranks = ranks
        #: By local rank: number of a tensor, first element, number of elements.
        self._pieces: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]
        for number, (count, owner) in enumerate(zip(counts, first_owners, strict=True)):
            for rank, (first, length) in pieces(count, ranks, owner).items():
                self._pieces[rank].append((number, first, length))
        self._compressed = max(sum(length for _, _, length in own) for own in self._pieces)
        self._exact = list(exact)
        self._exact_share = -(-sum(exact) // ranks)
        self._length = self._compressed + self._exact_share

    def rows(self, tensors: Sequence[torch.Tensor], exact: Sequence[torch.Tensor], factor: float) -> torch.Tensor:
        """All rows, of float32, with these values; the exact ones are multiplied by `factor`."""
        given = [*tensors, *exact]
        rows = torch.zeros(self._ranks, self._length, device=given[0].device if given else None)
        _copy(*self._pairs(rows, tensors))
        if exact:
            values = torch.cat([tensor.float() for tensor in exact]).mul_(factor)
            values = torch.nn.functional.pad(values, (0, self._ranks * self._exact_share - values.numel()))
            rows[:, self._compressed :] = values.view(self._ranks, -1)
        return rows

    def pieces_of(self, row: torch.Tensor, local_rank: int) -> dict[int, torch.Tensor]:
        """The pieces in a rank's row, by the tensors' numbers."""
        start, result = 0, {}
        for number, _, length in self._pieces[local_rank]:
            result[number] = row[start : start + length]
            start += length
        return result

    def exact_of(self, row: torch.Tensor) -> torch.Tensor | None:
        """The part of the exact tensors in a rank's row."""
        return row[self._compressed :] if self._exact else None

    def put_back(self, rows: torch.Tensor, tensors: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> None:
        """Writes the rows' values into the tensors."""
        travelled, parts = self._pairs(rows, tensors)
        if exact:
            together = rows[:, self._compressed :].reshape(-1)[: sum(self._exact)]
            travelled += together.split(self._exact)
            parts += exact
        _copy(parts, travelled)

    def _pairs(
        self, rows: torch.Tensor, tensors: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """All pieces in the rows, and the parts of the tensors that they are."""
        travelled, parts = [], []
        for rank, row in enumerate(rows):
            values = self.pieces_of(row, rank)
            for number, first, length in self._pieces[rank]:
                travelled.append(values[number])
                parts.append(tensors[number][first : first + length])
        return travelled, parts


def _copy(to: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    """One kernel, or few, on a GPU."""
    if to:
        torch._foreach_copy_(to, values)


def least_loaded(owned: Sequence[int]) -> int:
    """The first of the ranks that own the fewest elements."""
    return list(owned).index(min(owned))
