# SPDX-License-Identifier: Apache-2.0
"""Tensors in whose place two others are summed over all ranks, one after the other: PowerSGD's factors (low_rank.py),
or statistics and encoded values (summed.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hipress import _core
from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.process_groups import low_rank, summed
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.low_rank import FactorBatch, LowRankAverage
from hipress.torch.process_groups.side import Side
from hipress.torch.process_groups.summed import SumBatch, SummedAverage


@dataclass
class LinkedBatch:
    """The tensors of a batch on their way."""

    factors: FactorBatch | None
    sums: SumBatch | None


def check_factors(codec: _core.Codec | None, side: Side) -> None:
    """Raises Unsupported for a codec with factors that the side cannot compute."""
    if codec is not None and codec.low_rank is not None and side.no_factors:
        raise Unsupported(f"codec {codec.name} on {side.device}: {side.no_factors}")


class LinkedAverage:
    """Averages such tensors of batches. Each of the three parts runs in a thread of its own.

    Arguments: as of SummedAverage; `side`: where the ranks compute.
    """

    def __init__(self, exchange: Group, collect: Group, *, seed: int, side: Side) -> None:
        self._side = side
        self._low_rank = LowRankAverage(exchange, collect)
        self._summed = SummedAverage(exchange, collect, seed=seed, side=side)

    def __contains__(self, name: str) -> bool:
        return name in self._low_rank or name in self._summed

    @property
    def sent_bytes(self) -> int:
        """The bytes that a rank sends of these tensors if all ranks form one ring."""
        return self._low_rank.sent_bytes + self._summed.sent_bytes

    def add(self, name: str, codec: _core.Codec, rows: int, count: int, element_bytes: int) -> _core.Codec | None:
        """How a tensor with a codec travels: None if it is not worth a codec. Codecs of other kinds are given back.
        Raises Unsupported."""
        if codec.low_rank is not None:
            check_factors(codec, self._side)
            how = low_rank.matrix_of(codec, rows, count)
            if how is None:
                return None
            self._low_rank.add(name, how)
        elif codec.summed is not None:
            if count > _core.MOST_ENCODED:
                raise InvalidArgument(
                    f"tensor '{name}' has {count} elements, and codec {codec.name} adds {_core.MOST_ENCODED} at "
                    "most: choose another codec for this tensor (codec_for), such as int8"
                )
            if codec.max_encoded_bytes(count) >= count * element_bytes:
                return None
            self._summed.add(name, codec, count)
        return codec

    # First thread.
    def start(
        self, named: Sequence[tuple[str, torch.Tensor]], step: int, factor: float, changes: Any
    ) -> LinkedBatch | None:
        """Starts the first sums of these flat tensors; None if there are none. `changes`: of the step."""
        if not named:
            return None
        factors = self._low_rank.start([each for each in named if each[0] in self._low_rank], step, factor)
        return LinkedBatch(
            factors, self._summed.start([each for each in named if each[0] in self._summed], step, factor, changes)
        )

    # Second thread.
    def go_on(self, batch: LinkedBatch) -> None:
        """Waits for the first sums, and starts the second ones."""
        if batch.factors is not None:
            self._low_rank.go_on(batch.factors)
        if batch.sums is not None:
            self._summed.go_on(batch.sums)

    # Third thread.
    def finish(self, batch: LinkedBatch) -> bool:
        """Waits for the second sums, and writes the averages and the states; returns whether no average of factors is
        known not to be finite. The others' step knows it itself."""
        finite = batch.factors is None or self._low_rank.finish(batch.factors)
        if batch.sums is not None:
            self._summed.finish(batch.sums)
        return finite

    def settle(self, discarded: bool) -> None:
        """Ends a step. If it is discarded, the states of factors become what they were before it."""
        self._low_rank.settle(discarded)

    def tables(self) -> list[_core.SlotStateTable]:
        """The states that are in tables."""
        return self._summed.tables()

    def multiply(self, factor: float) -> None:
        """Multiplies the other states: the unit of gradients has changed."""
        self._low_rank.multiply(factor)

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states."""
        return {**self._low_rank.state_dict(), **self._summed.state_dict()}

    def takes(self, key: str, values: Mapping[str, Any]) -> bool:
        """Whether a tensor goes on with such saved states of it. Otherwise it travels in another way than it did."""
        return self._low_rank.takes(key) if low_rank.is_factors(key) else self._summed.takes(key, values)

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Goes on from what state_dict() gave. Raises InvalidArgument if it is of other tensors."""
        factors = self._low_rank.checked({key: state[key] for key in state if low_rank.is_factors(key)})
        sums = self._summed.checked({key: state[key] for key in state if not low_rank.is_factors(key)})
        self._low_rank.adopt(factors)
        self._summed.adopt(sums)


def is_linked(key: str) -> bool:
    """Whether an entry of saved states is that of such a tensor."""
    return low_rank.is_factors(key) or key.split("\n")[1:2] == [summed.ROLE]


def mean_states(saved: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The states of each rank, of any number, from those of all ranks before."""
    return {**low_rank.mean_states(saved), **summed.mean_states(saved)}
