# SPDX-License-Identifier: Apache-2.0
"""Which fragment is exchanged after which inner step (Streaming DiLoCo, arXiv 2501.18512, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.errors import InvalidArgument


def _whole(value: object, name: str, at_least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise InvalidArgument(f"{name}={value!r}: give a whole number of at least {at_least}")


@dataclass(frozen=True)
class Schedule:
    """Each fragment every `sync_every` inner steps, one each `sync_every / fragments`; the last one at `sync_every`.

    Raises InvalidArgument for numbers that make no schedule.
    """

    sync_every: int
    """H."""
    fragments: int
    """P."""
    overlap_steps: int
    """τ: an exchange that begins after step t is applied after step t + τ."""

    def __post_init__(self) -> None:
        _whole(self.sync_every, "sync_every", 1)
        _whole(self.fragments, "fragments", 1)
        _whole(self.overlap_steps, "overlap_steps", 0)
        if self.sync_every % self.fragments:
            raise InvalidArgument(
                f"sync_every={self.sync_every} is no multiple of the {self.fragments} fragments: one of them is "
                "exchanged each sync_every / fragments steps"
            )
        if self.overlap_steps >= self.distance:
            raise InvalidArgument(
                f"overlap_steps={self.overlap_steps} is not below sync_every / fragments = {self.distance}: the next "
                "exchange would begin before this one's result is used"
            )

    @property
    def distance(self) -> int:
        """Inner steps between the beginnings of two exchanges."""
        return self.sync_every // self.fragments

    def begins(self, step: int) -> int | None:
        """The fragment whose exchange begins after `step` inner steps (the first is 1)."""
        count, rest = divmod(step, self.distance)
        return None if rest or not count else (count - 1) % self.fragments
