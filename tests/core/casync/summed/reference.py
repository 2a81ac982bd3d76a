# SPDX-License-Identifier: Apache-2.0
"""Sums of encoded values in NumPy, all ranks in one: the program's interpreter, agreement and integer sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import Interpreter

Floats = NDArray[np.float32]
COMBINE: dict[str, Callable[[Any], Floats]] = {
    "max": lambda values: np.max(values, axis=0),
    "min": lambda values: np.min(values, axis=0),
    "sum": lambda values: np.add.reduce(values, axis=0, dtype=np.float32),
}


class Reference:
    """All ranks of one tensor."""

    def __init__(self, definition: Interpreter, count: int, world: int, *, seed: int = 0, tensor: int = 0) -> None:
        self.definition, self.count, self.seed, self.tensor = definition, count, seed, tensor
        self.states = [definition.new_state(count) for _ in range(world)]
        self.steps = 0

    def step(self, gradients: Sequence[Floats | None]) -> Floats | None:
        """The mean that every rank gets; None for a rank without a gradient, or if no rank has one."""
        present = [rank for rank, gradient in enumerate(gradients) if gradient is not None]
        step, self.steps = self.steps, self.steps + 1
        if not present:
            return None
        own: dict[int, Floats] = {}

        def encoded(rank: int, agree: Callable[[Floats], Floats], state: dict[str, Floats]) -> bytes:
            gradient = gradients[rank]
            assert gradient is not None
            return self.definition.encode(
                gradient.ravel(), state, seed=self.seed + (rank << 34), step=step, tensor=self.tensor, agree=agree
            )

        def noted(rank: int) -> Callable[[Floats], Floats]:
            def agree(statistics: Floats) -> Floats:
                own[rank] = statistics.copy()
                return statistics

            return agree

        for rank in present:
            encoded(rank, noted(rank), {name: values.copy() for name, values in self.states[rank].items()})
        if len(own) < len(present) or not np.isfinite(list(own.values())).all():
            return np.full(self.count, np.nan, np.float32)
        assert self.definition.program.encode is not None
        assert self.definition.program.encode.summed is not None
        agreed = COMBINE[self.definition.program.encode.summed.agreement]([own[rank] for rank in present])
        after = [{name: values.copy() for name, values in states.items()} for states in self.states]
        messages = [encoded(rank, lambda _: agreed, after[rank]) for rank in present]
        if not all(messages):
            return np.full(self.count, np.nan, np.float32)
        self.states = after
        levels = np.sum([np.frombuffer(message[-self.count :], np.int8) for message in messages], axis=0, dtype=int)
        assert np.abs(levels).max() <= 127
        total = self.definition.decode(messages[0][: -self.count] + levels.astype(np.int8).tobytes(), self.count)
        with np.errstate(all="ignore"):
            return total * np.float32(1 / len(gradients))
