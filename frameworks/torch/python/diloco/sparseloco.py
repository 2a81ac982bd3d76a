# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo: the largest values of each tile of the pseudo-gradients, with 2 bits, and error feedback."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.diloco.averaging import Values
from hipress.torch.diloco.ranks import Gather, Ranks
from hipress.torch.tiles.layout import LONGEST
from hipress.torch.tiles.message import SparseMessage


@dataclass(frozen=True)
class SparseLoCo:
    """How SparseLoCo (arXiv 2508.15706) compresses pseudo-gradients: a `codec` of DiLoCo(), with the paper's constants.

    On each rank the residual e becomes `decay` × e + Δ. Of each tile of 64 × 64 elements of e (64 of a vector) the `k`
    of largest magnitude are sent, with 2 bits each, and the sent values are subtracted from e. The average is the sum
    of the values that all ranks have sent, divided by the number of ranks.

    Raises InvalidArgument for other numbers than those below.
    """

    decay: float = 0.95
    """From 0 to 1."""
    k: int = 64
    """From 1 to 4,096."""
    adaptive: bool = True
    """Whether the values travel in a code that learns from them, which takes a fifth off the bytes, and 6 ns of a core
    for each element, at the sender and for each message at a receiver."""

    def __post_init__(self) -> None:
        if not isinstance(self.adaptive, bool):
            raise InvalidArgument(f"adaptive={self.adaptive!r}: give True or False")
        decay, k = self.decay, self.k
        if not isinstance(decay, (int, float)) or isinstance(decay, bool) or not 0.0 <= decay <= 1.0:
            raise InvalidArgument(f"decay={decay!r}: give a number from 0 to 1")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= LONGEST**2:
            raise InvalidArgument(f"k={k!r}: give a whole number from 1 to {LONGEST**2}, the elements of a tile")


class SparseAveraging:
    """See Averaging. Each rank sends one message about a fragment to each other rank."""

    takes_codec_states = False

    def __init__(self, parameters: Mapping[str, torch.Tensor], fragments: list[list[str]], codec: SparseLoCo) -> None:
        self._decay = codec.decay
        self._dtypes = {name: each.dtype for name, each in parameters.items()}
        self._messages = [
            SparseMessage({name: parameters[name].shape for name in names}, codec.k, adaptive=codec.adaptive)
            for names in fragments
        ]
        self._gather: Gather
        self._residuals = {name: torch.zeros(each.shape) for name, each in parameters.items()}
        self._world = 0

    def enter(self, ranks: Ranks) -> None:
        """See Averaging."""
        self._gather = ranks.gathers([each.bytes for each in self._messages])
        if self._world not in (0, ranks.world):
            for each in self._residuals.values():
                each.mul_(ranks.world / self._world)  # the average divides by the number of ranks
        self._world = ranks.world

    def keep(self) -> None:
        """See MovableAveraging: residuals change when an exchange has ended."""

    def drop(self, names: Collection[str]) -> None:
        """See MovableAveraging."""
        for name in names:
            self._residuals[name].zero_()

    def residual(self) -> float:
        """See MovableAveraging."""
        return sum(float(each.double().square().sum()) for each in self._residuals.values())

    def start(self, fragment: int, values: Values, number: int) -> Callable[[], Values]:
        """See Averaging. Nothing is random here."""
        message = self._messages[fragment]
        wanted = {name: each.float().add_(self._residuals[name], alpha=self._decay) for name, each in values.items()}
        payload, left = message.encoded(wanted)
        gathered = self._gather(fragment, payload)

        def arrived() -> Values:
            averages = message.averages(gathered())
            # Not before: of an exchange that fails nothing was sent. A residual is never of values that are not finite.
            self._residuals.update(left)
            return {name: each.to(self._dtypes[name]) for name, each in averages.items()}

        return arrived

    def residuals(self) -> Values | None:
        """See Averaging."""
        return self._residuals

    def load_residuals(self, residuals: Mapping[str, torch.Tensor]) -> None:
        """See Averaging."""
        self._residuals = {name: residuals[name].clone() for name in self._residuals}

    def codec_states(self) -> dict[str, Any] | None:
        """See Averaging: residuals() has all."""
        return None

    def load_codec_states(self, states: Sequence[Mapping[str, Any]]) -> None:
        """See Averaging."""
