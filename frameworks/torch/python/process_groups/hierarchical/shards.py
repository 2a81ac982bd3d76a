# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a host share the elements of some tensors: each averages its share with its peers on other hosts.

A tensor is cut into one piece per rank of the host, and a rank has the same piece in every batch, since what codecs
remember is kept for its elements. A row of float32 has the pieces of one rank, then its part of the exact tensors of
float32, and at the end whether an average is not finite: the ranks of a host tell each other, because they average
different shares. Exact tensors of each other type have rows of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from hipress._library import load_core
from hipress.torch.process_groups.exact_values import ExactValues

_core = load_core()  # once: several threads use it


def pieces(count: int, ranks: int, first_owner: int) -> dict[int, tuple[int, int]]:
    """First element and number of elements of each local rank's piece of a tensor; a small one is in one piece."""
    ranges = _core.split_elements(count, ranks)
    return {(first_owner + index) % ranks: each for index, each in enumerate(ranges)}


class HostShards:
    """Rows for some tensors of a batch."""

    def __init__(
        self, counts: Sequence[int], first_owners: Sequence[int], exact: Mapping[torch.dtype, int], ranks: int
    ) -> None:
        """`counts`, `first_owners`: of compressed tensors; `exact`: numbers of elements of the exact ones."""
        self._ranks = ranks
        #: By local rank: number of a tensor, first element, number of elements.
        self._pieces: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]
        for number, (count, owner) in enumerate(zip(counts, first_owners, strict=True)):
            for rank, (first, length) in pieces(count, ranks, owner).items():
                self._pieces[rank].append((number, first, length))
        self._compressed = max(sum(length for _, _, length in own) for own in self._pieces)
        self._exact = dict(exact)
        self._shares = {dtype: -(-count // ranks) for dtype, count in exact.items()}
        #: Of the rows.
        self._types = [torch.float32, *(dtype for dtype in exact if dtype != torch.float32)]

    def rows(self, tensors: Sequence[torch.Tensor], exact: ExactValues, factor: float) -> list[torch.Tensor]:
        """All rows of each type, with these values; the exact ones are multiplied by `factor`."""
        joined = dict(zip(exact.of_type, exact.joined(), strict=True))
        given = [*tensors, *joined.values()]
        all_rows = []
        for dtype in self._types if given else ():
            start, share = self._start(dtype), self._shares.get(dtype, 0)
            more = 1 if dtype == torch.float32 else 0
            rows = torch.zeros(self._ranks, start + share + more, dtype=dtype, device=given[0].device)
            if dtype == torch.float32:
                _copy(*self._pairs(rows, tensors))
            if dtype in joined:
                values = joined[dtype].mul_(factor)
                padded = torch.nn.functional.pad(values, (0, self._ranks * share - values.numel()))
                rows[:, start : start + share] = padded.view(self._ranks, -1)
            all_rows.append(rows)
        return all_rows

    def _start(self, dtype: torch.dtype) -> int:
        """Where the exact values begin in a row."""
        return self._compressed if dtype == torch.float32 else 0

    def pieces_of(self, row: Sequence[torch.Tensor], local_rank: int) -> dict[int, torch.Tensor]:
        """The pieces in a rank's row, by the tensors' numbers."""
        return self._pieces_of(row[0], local_rank) if row else {}

    def _pieces_of(self, row: torch.Tensor, local_rank: int) -> dict[int, torch.Tensor]:
        start, result = 0, {}
        for number, _, length in self._pieces[local_rank]:
            result[number] = row[start : start + length]
            start += length
        return result

    def exact_of(self, row: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The parts of the exact tensors in a rank's row, by type."""
        of_type = dict(zip(self._types, row, strict=False))  # an empty batch has no rows
        return [self._exact_in(of_type[dtype], dtype) for dtype in self._exact]

    def _exact_in(self, rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Of one row or of all."""
        start = self._start(dtype)
        return rows[..., start : start + self._shares[dtype]]

    def put_back(self, all_rows: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], exact: ExactValues) -> None:
        """Writes the rows' values into the tensors."""
        of_type = dict(zip(self._types, all_rows, strict=False))
        if tensors:
            travelled, parts = self._pairs(of_type[torch.float32], tensors)
            _copy(parts, travelled)
        exact.put_back(
            [self._exact_in(of_type[dtype], dtype).reshape(-1)[:count] for dtype, count in self._exact.items()]
        )

    def _pairs(
        self, rows: torch.Tensor, tensors: Sequence[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """All pieces in the rows, and the parts of the tensors that they are."""
        travelled, parts = [], []
        for rank, row in enumerate(rows):
            values = self._pieces_of(row, rank)
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
