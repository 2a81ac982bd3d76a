# SPDX-License-Identifier: Apache-2.0
"""What HIPRESS_COORDINATOR=rank0 would ask of rank 0: docs/architecture.md, "Rounds". The simulation has no rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hipress.secopa.choice import Choice
from hipress.secopa.gradients import GradientSet
from hipress.secopa.profile import Profile
from hipress.secopa.scenario import Scenario

#: Smaller messages go in bundles, and take no part in rounds; of a round, at most. As the engine has them.
_SMALL, _ROUND_BYTES = 16 << 10, 1 << 20


def questions_per_step(profile: Profile, gradients: GradientSet, choices: Sequence[Choice], scenario: Scenario) -> int:
    """Of all ranks together, at least: one per round, and a round is for one link and no more than 1 MiB."""
    if scenario.nodes < 2:
        return 0
    large = {"to all": 0.0, "to the next": 0.0}
    links = {"to all": scenario.nodes - 1, "to the next": 1}
    for gradient, choice in zip(gradients.gradients, choices, strict=True):
        size: float = gradient.bytes
        if choice.compressed:
            size = profile.codec(choice.codec).encoded.of(4 * gradient.elements)
        if size / choice.partitions <= _SMALL:
            continue
        # As docs/algorithms.md has it: per host, between hosts.
        times = (scenario.nodes - 1) * (1 if "allgather" in choice.topology else 2 / scenario.nodes)
        large["to the next" if "ring" in choice.topology else "to all"] += size * times
    rounds = sum(
        max(links[kind], math.ceil(size / _ROUND_BYTES)) for kind, size in large.items() if size and links[kind] > 1
    )
    # With one link there is nothing to choose.
    return rounds * scenario.nodes
