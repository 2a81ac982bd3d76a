# SPDX-License-Identifier: Apache-2.0
"""Before an exchange the ranks tell each other that they take part, or that their training has ended.

Without it a rank with fewer steps than the others would leave them alone in their last exchanges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from hipress.errors import Mismatch
from hipress.torch.diloco.ranks import Ranks

_BYTES = 12
_ENDED, _FIRST = 1, 2


class Answer(NamedTuple):
    """Of all ranks."""

    fragment: int | None
    """Which they exchange; None: all have ended."""
    applied: int
    """Of how many exchanges the foremost rank has used the averages."""


class RollCall:
    """Each rank's next fragment. All ranks call it equally often, in the order of their exchanges."""

    def __init__(self, ranks: Ranks) -> None:
        self._rank, self._world = ranks.rank, ranks.world
        self._gather = ranks.gathers([_BYTES]) if ranks.world > 1 else None

    def call(self, fragment: int | None, step: int, applied: int) -> Callable[[], Answer]:
        """Tells the others this rank's fragment; None: its training has ended. It has taken `step` inner steps, and has
        used the averages of `applied` exchanges.

        Returns what waits for the others' answers. That raises Mismatch on all ranks if they begin exchanges of
        different fragments, and what a gather raises.
        """
        if self._gather is None:
            return lambda: Answer(fragment, applied)
        own = _ENDED if fragment is None else _FIRST + fragment
        gathered = self._gather(0, torch.tensor([own, step, applied], dtype=torch.int32).view(torch.uint8))

        def answered() -> Answer:
            said = [each.view(torch.int32).tolist() for each in gathered()]
            begun = {what for what, *_ in said if what != _ENDED}
            if len(begun) > 1:
                listed = "; ".join(
                    f"rank {rank} fragment {what - _FIRST} after {steps} inner steps"
                    for rank, (what, steps, _) in enumerate(said)
                    if what != _ENDED
                )
                raise Mismatch(f"the ranks begin exchanges of different fragments: {listed}")
            return Answer(begun.pop() - _FIRST if begun else None, max(used for *_, used in said))

        return answered
