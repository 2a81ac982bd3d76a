# SPDX-License-Identifier: Apache-2.0
"""Cost curves: seconds as a function of bytes, either measured at some sizes or published as a formula."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import FailFast, Field, model_validator
from typing_extensions import Self

from hipress.secopa.profile.document import Part


class CostPoint(Part):
    """Several measurements at one size."""

    bytes: int = Field(ge=0)
    median_s: float = Field(ge=0)
    smallest_s: float = Field(ge=0)
    largest_s: float = Field(ge=0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.smallest_s <= self.median_s <= self.largest_s:
            raise ValueError(f"at {self.bytes} bytes the median {self.median_s} is not between smallest and largest")
        return self


class MeasuredCurve(Part):
    """Measured costs: straight lines join the medians; above the largest size the curve has the fitted line's slope."""

    form: Literal["measured"] = "measured"
    points: Annotated[tuple[CostPoint, ...], FailFast(), Field(min_length=1)]

    @model_validator(mode="after")
    def _sizes_grow(self) -> Self:
        for one, other in pairwise(self.points):
            if one.bytes >= other.bytes:
                raise ValueError(f"points must be in the order of their sizes, not {one.bytes}, {other.bytes} bytes")
        return self

    @cached_property
    def _line(self) -> tuple[float, float]:
        """A and B of the line A + B·bytes, both at least zero, that minimises the squared relative errors.

        With absolute errors the large sizes alone would decide, and A comes from the small sizes.
        """
        # A sample of zero seconds is below the clock's resolution, and a relative error needs a positive time.
        usable = [(point.bytes, point.median_s) for point in self.points if point.median_s > 1e-12]
        total = sum(1 / s**2 for _, s in usable)
        if not total:
            return 0.0, 0.0
        mean_bytes = sum(size / s**2 for size, s in usable) / total
        mean_s = sum(1 / s for _, s in usable) / total
        spread = sum((size - mean_bytes) ** 2 / s**2 for size, s in usable)
        if not spread:
            largest = max(size for size, _ in usable)
            return (0.0, mean_s / largest) if largest else (mean_s, 0.0)
        slope = max(0.0, sum((size - mean_bytes) * (s - mean_s) / s**2 for size, s in usable) / spread)
        if mean_s < slope * mean_bytes:
            slope = sum(size / s for size, s in usable) / sum(size**2 / s**2 for size, s in usable)
            return 0.0, slope
        return mean_s - slope * mean_bytes, slope

    @property
    def fixed_s(self) -> float:
        """A of the fitted line A + B·bytes."""
        return self._line[0]

    @property
    def s_per_byte(self) -> float:
        """B of the fitted line A + B·bytes."""
        return self._line[1]

    @cached_property
    def _sizes(self) -> list[int]:
        return [point.bytes for point in self.points]

    def seconds(self, size: float) -> float:
        """The cost of `size` bytes."""
        points = self.points
        if size >= points[-1].bytes:
            return points[-1].median_s + (size - points[-1].bytes) * self.s_per_byte
        after = bisect_left(self._sizes, size)
        if after == 0:
            # Zero bytes cost the fixed part of the line, but not more than the smallest measured size.
            from_bytes, from_s = 0, min(self.fixed_s, points[0].median_s)
        else:
            from_bytes, from_s = points[after - 1].bytes, points[after - 1].median_s
        to = points[after]
        if to.bytes == from_bytes:
            return to.median_s
        return from_s + (to.median_s - from_s) * (size - from_bytes) / (to.bytes - from_bytes)


class PublishedCurve(Part):
    """A curve in the form of the original's published costs: a line, and a lower bound for small sizes."""

    form: Literal["published"] = "published"
    s_per_byte: float = Field(ge=0)
    fixed_s: float
    overhead_s: float = Field(ge=0)
    """The lower bound: the cost of every size for which the line gives less."""

    def seconds(self, size: float) -> float:
        """The cost of `size` bytes."""
        return max(self.overhead_s, self.s_per_byte * size + self.fixed_s)


CostCurve = Annotated[MeasuredCurve | PublishedCurve, Field(discriminator="form")]


class EncodedSize(Part):
    """The size of a tensor, and the size of its encoding."""

    raw_bytes: int = Field(gt=0)
    encoded_bytes: int = Field(ge=0)


class EncodedSizes(Part):
    """Encoded bytes as a function of raw bytes. Lines join the measured sizes; above the largest, its ratio holds."""

    points: Annotated[tuple[EncodedSize, ...], FailFast(), Field(min_length=1)]

    @cached_property
    def _sizes(self) -> list[int]:
        return [point.raw_bytes for point in self.points]

    @model_validator(mode="after")
    def _sizes_grow(self) -> Self:
        for one, other in pairwise(self.points):
            if one.raw_bytes >= other.raw_bytes:
                raise ValueError(f"points must be in the order of their sizes, not {one.raw_bytes}, {other.raw_bytes}")
        return self

    def of(self, raw_bytes: float) -> float:
        """Bytes of the encoding, at most `raw_bytes`: the runtime sends a tensor raw if its encoding is not smaller."""
        points = self.points
        if raw_bytes >= points[-1].raw_bytes:
            return min(raw_bytes, points[-1].encoded_bytes / points[-1].raw_bytes * raw_bytes)
        after = bisect_left(self._sizes, raw_bytes)
        if after == 0:
            # The size of the fixed part is unknown, so the bytes of the smallest measured size are an upper bound.
            return min(raw_bytes, points[0].encoded_bytes)
        one, other = points[after - 1], points[after]
        share = (raw_bytes - one.raw_bytes) / (other.raw_bytes - one.raw_bytes)
        return min(raw_bytes, one.encoded_bytes + (other.encoded_bytes - one.encoded_bytes) * share)
