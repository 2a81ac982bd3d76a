# SPDX-License-Identifier: Apache-2.0
"""Before an exchange the ranks tell each other that they take part, or that their training has ended.

Without it a rank with fewer steps than the others would leave them alone in their last exchanges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from hipress.errors import Mismatch
from hipress.torch.diloco.ranks import Ranks

_ENDED, _FIRST = 1, 2


class Said(NamedTuple):
    """What a rank says."""

    fragment: int | None
    """Which it exchanges; None: its training has ended."""
    steps: int
    """Its inner steps."""
    applied: int
    """Of how many exchanges it has used the averages."""
    weight: float = 1.0
    """Of its pseudo-gradients."""
    process: int = 0
    """Its number in an elastic job."""
    residual: float = 0.0
    """The squared norm of what it had not sent before this exchange, in an elastic job."""


class Answer(NamedTuple):
    """Of all ranks."""

    fragment: int | None
    """Which they exchange; None: all have ended."""
    said: Sequence[Said]
    """In rank order."""

    @property
    def applied(self) -> int:
        """Of how many exchanges the foremost rank has used the averages."""
        return max(each.applied for each in self.said)

    def share_of(self, weight: float) -> float:
        """The factor that makes an average of a weighted one, for a rank with this weight; 1 if all are equal."""
        total = sum(each.weight for each in self.said)
        return weight * len(self.said) / total if total > 0 else 1.0


_BYTES = 8 * len(Said._fields)


class RollCall:
    """Each rank's next fragment. All ranks call it equally often, in the order of their exchanges."""

    def __init__(self, ranks: Ranks) -> None:
        self._rank, self._world = ranks.rank, ranks.world
        self._gather = ranks.gathers([_BYTES]) if ranks.world > 1 else None

    def call(self, own: Said) -> Callable[[], Answer]:
        """Tells the others what this rank says.

        Returns what waits for the others' answers. That raises Mismatch on all ranks if they begin exchanges of
        different fragments, and what a gather raises.
        """
        if self._gather is None:
            return lambda: Answer(own.fragment, [own])
        what = _ENDED if own.fragment is None else _FIRST + own.fragment
        gathered = self._gather(0, torch.tensor([what, *own[1:]], dtype=torch.float64).view(torch.uint8))

        def answered() -> Answer:
            said = [_read(each) for each in gathered()]
            begun = {each.fragment for each in said if each.fragment is not None}
            if len(begun) > 1:
                listed = "; ".join(
                    f"rank {rank} fragment {each.fragment} after {each.steps} inner steps"
                    for rank, each in enumerate(said)
                    if each.fragment is not None
                )
                raise Mismatch(f"the ranks begin exchanges of different fragments: {listed}")
            return Answer(begun.pop() if begun else None, said)

        return answered


def _read(message: torch.Tensor) -> Said:
    what, steps, applied, weight, process, residual = message.view(torch.float64).tolist()
    fragment = None if what == _ENDED else int(what) - _FIRST
    return Said(fragment, int(steps), int(applied), weight, int(process), residual)
