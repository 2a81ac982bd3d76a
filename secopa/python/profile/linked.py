# SPDX-License-Identifier: Apache-2.0
"""The costs of codecs that send a tensor as two linked tensors, one after the other (docs/algorithms.md).

With a sum of encoded values these are the statistics on which ranks agree, and the levels; with low rank they are the
two factors of a matrix. Both are uncompressed tensors. A rank computes before the first one, between both, and after
the second one.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated, NamedTuple

from pydantic import FailFast, Field, model_validator
from typing_extensions import Self

from hipress.secopa.profile.curves import CostCurve, EncodedSizes
from hipress.secopa.profile.document import Part

#: The ends of the names of linked tensors.
STATISTICS, LEVELS, LEFT, RIGHT = " (statistics)", " (levels)", " (left factor)", " (right factor)"


#: A codec for so many ranks has levels of up to 7, which 4 bits hold: with levels of up to 8 it is for 127 // 8 ranks.
_RANKS_OF_4_BITS = 127 // 7


class LinkedTensor(NamedTuple):
    """One of the two tensors."""

    suffix: str
    """The end of its name, as in core/casync/agree/linked_specs.cc. The name determines the partitions' owners."""
    elements: int
    element_bytes: int
    packs_own: bool = False
    """Whether a rank's own values travel as 4 bits each, and only sums as they are."""

    @property
    def bytes(self) -> int:
        return self.elements * self.element_bytes


class LinkedTimes(Part):
    """The computations of a rank for a whole tensor, as functions of the tensor's bytes as float32."""

    first: CostCurve
    """Makes the first linked tensor: the statistics, or the left factor."""
    second: CostCurve
    """Makes the second linked tensor from the combination of the first: the levels, or the right factor."""
    result: CostCurve
    """Makes the result and the residual from both."""


class Summed(Part):
    """A codec whose encoded values ranks add: statistics of float32, and one level of one byte for each element."""

    statistics: EncodedSizes
    """Bytes of the statistics."""
    most_ranks: int = Field(ge=1)
    """The most ranks whose levels have a sum that fits into 8 bits."""

    def tensors(self, elements: int, element_bytes: int) -> tuple[LinkedTensor, LinkedTensor] | None:
        # Blocks need whole statistics; a line between two sizes has rounding errors.
        count = ceil(self.statistics.of(4 * elements) / 4 - 1e-6)
        statistics = LinkedTensor(STATISTICS, count, 4)
        if elements == 0 or statistics.bytes + elements >= elements * element_bytes:
            return None
        # The last element counts the ranks whose values are not finite.
        return statistics, LinkedTensor(LEVELS, elements + 1, 1, self.most_ranks >= _RANKS_OF_4_BITS)


class Factors(Part):
    """A codec that sends a matrix as two factors of float32."""

    rank: int = Field(ge=1)
    """The most columns of each factor."""
    min_ratio: float = Field(gt=0)
    """A matrix that is not so many times as large as its factors travels uncompressed."""

    def tensors(self, shape: tuple[int, ...]) -> tuple[LinkedTensor, LinkedTensor] | None:
        """By the rules of core/casync/graph/tensor.cc: the rows are the first dimension."""
        if len(shape) < 2 or 0 in shape:
            return None
        rows, columns = shape[0], 1
        for size in shape[1:]:
            columns *= size
        rank = min(self.rank, rows, columns)
        if rank * (rows + columns) * self.min_ratio > rows * columns:
            return None
        # The last element counts the ranks with values.
        return LinkedTensor(LEFT, rank * rows, 4), LinkedTensor(RIGHT, rank * columns + 1, 4)


class LinkedCosts(Part):
    """The costs of such a codec. It has either `summed` or `factors`."""

    threads: dict[int, LinkedTimes] = Field(min_length=1)
    """The times by the number of threads that work on one tensor. Those of factors are of square matrices."""
    summed: Summed | None = None
    factors: Factors | None = None
    crowding: Annotated[tuple[float, ...], FailFast()] = (1.0,)
    """As in CodecCosts."""
    in_steps: float = Field(default=1.0, gt=0)
    """The factor by which the computations are slower inside a step."""
    relative_error: float | None = Field(default=None, ge=0)
    """As in CodecCosts; with factors it is of a square matrix."""
    states: int | float = Field(default=0, ge=0)
    """As in CodecCosts."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.summed is None) == (self.factors is None):
            raise ValueError("expected either summed or factors")
        return self

    def times(self, threads: int) -> LinkedTimes:
        """As CodecCosts.times()."""
        fitting = [count for count in self.threads if count <= threads]
        return self.threads[max(fitting) if fitting else min(self.threads)]

    def tensors(
        self, elements: int, element_bytes: int, shape: tuple[int, ...] | None
    ) -> tuple[LinkedTensor, LinkedTensor] | None:
        """The two tensors of a gradient; None if it travels uncompressed, because they would save too little."""
        if self.summed is not None:
            return self.summed.tensors(elements, element_bytes)
        assert self.factors is not None
        # Without a shape it is a vector, which has no factors. objection() refuses gradients whose shapes are unknown.
        return self.factors.tensors(shape or ())
