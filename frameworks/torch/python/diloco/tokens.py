# SPDX-License-Identifier: Apache-2.0
"""How much this rank has trained since its last exchange of each fragment: the weight of its pseudo-gradient."""

from __future__ import annotations

from collections.abc import Sequence


class Tokens:
    """Counts of whatever the program counts: tokens, samples, or inner steps."""

    def __init__(self, fragments: int) -> None:
        self.total = 0.0
        self._sent = [0.0] * fragments

    def since(self, fragment: int) -> float:
        """Since the last exchange of the fragment."""
        return self.total - self._sent[fragment]

    def sent(self, fragment: int, total: float) -> None:
        """An exchange of the fragment has ended, which began when the count was `total`."""
        self._sent[fragment] = total

    def saved(self) -> list[float]:
        """Of each fragment, for a checkpoint."""
        return [self.since(fragment) for fragment in range(len(self._sent))]

    def load(self, since: Sequence[float]) -> None:
        """Goes on from saved()."""
        self._sent = [self.total - each for each in since]
