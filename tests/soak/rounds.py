# SPDX-License-Identifier: Apache-2.0
"""Draws all properties of a round of the soak test from its seed and number alone."""

from __future__ import annotations

import random
from dataclasses import dataclass

CODECS = ("none", "none", "onebit", "terngrad", "dgc", "fp16")
#: Faults on any machine, and faults that need emulated hosts. A "brief" fault ends before a deadline and must cause no
#: error.
ANYWHERE = ("nothing", "kill", "kill two", "stop", "brief stop", "leave", "late", "brief late", "corrupt")
BETWEEN_NODES = ("cut", "brief cut", "brief slowness", "brief loss", "slowness", "loss of all")
TIMEOUT = 4.0


@dataclass(frozen=True)
class Round:
    """One round. `moment`: seconds from the start of the processes, or, if `ready`, from the first step of all ranks,
    to the fault."""

    seed: int
    number: int
    on_nodes: bool
    fault: str
    size: int
    per_node: int
    topology: str
    codec: str
    sizes: tuple[int, ...]
    victims: tuple[int, ...]
    ready: bool
    moment: float
    length: float

    def describe(self) -> str:
        """One line with the round's properties and the seed and number that repeat it."""
        place = f"nodes of {self.per_node}" if self.on_nodes else "loopback"
        when = f"{self.moment:.2f} s after {'a step' if self.ready else 'the start'}"
        return (
            f"round {self.number} (SOAK_SEED={self.seed} SOAK_ROUND={self.number}): {self.size} ranks, {place}, "
            f"{self.topology}, {self.codec}, {list(self.sizes)} elements; {self.fault} {list(self.victims)} {when}"
        )


def draw(seed: int, number: int, nodes: bool) -> Round:
    """The round with this number; `nodes`: whether the machine can emulate hosts."""
    dice = random.Random(f"{seed}/{number}")
    # The throw happens even without emulated hosts, so that the later throws do not depend on it.
    on_nodes = dice.random() < 0.6 and nodes
    size = dice.randint(2, 5)
    fault = dice.choice(ANYWHERE + BETWEEN_NODES if on_nodes else ANYWHERE)
    victims = dice.sample(range(size), min(size - 1, 2 if fault == "kill two" else 1))
    return Round(
        seed=seed,
        number=number,
        on_nodes=on_nodes and fault != "corrupt",
        fault=fault,
        size=size,
        # All ranks on one host would not use a link.
        per_node=dice.choice((1, 1, 2 if size > 2 else 1)),
        topology=dice.choice(("ps", "ring", "allgather", "hierarchical")),
        codec=dice.choice(CODECS),
        sizes=tuple(int(10 ** dice.uniform(0, 5.3)) for _ in range(dice.randint(1, 6))),
        victims=tuple(victims),
        # UCX does not find a device without a link at the start, so a rank rightly cannot start then.
        ready=dice.random() < 0.8 or fault == "brief cut",
        moment=dice.uniform(0, 1.0) ** 2,
        length=dice.uniform(0.1, 1.5),
    )
