# SPDX-License-Identifier: Apache-2.0
"""The work of rank 0 as the coordinator of link rounds (HIPRESS_COORDINATOR=rank0).

The simulation has no link rounds, so this work is counted by formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hipress.secopa.models.linked_gradients import sent_as
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import Profile
from hipress.secopa.whatif.scenario import Scenario

#: The engine's limits in bytes: smaller messages travel in bundles without link rounds; the size of a link round.
_SMALL, _ROUND_BYTES = 16 << 10, 1 << 20


def questions_per_step(profile: Profile, gradients: GradientSet, choices: Sequence[Choice], scenario: Scenario) -> int:
    """A lower bound of all ranks' questions in a step: one per link round, for one link and at most 1 MiB."""
    if scenario.nodes < 2:
        return 0
    large = {"to all": 0.0, "to the next": 0.0}
    links = {"to all": scenario.nodes - 1, "to the next": 1}
    for gradient, choice in zip(gradients.gradients, choices, strict=True):
        for size in sent_as(profile, gradient, choice):
            if size / choice.partitions <= _SMALL:
                continue
            # Messages between hosts, per host, by the formulas of docs/algorithms.md.
            times = (scenario.nodes - 1) * (1 if "allgather" in choice.topology else 2 / scenario.nodes)
            large["to the next" if "ring" in choice.topology else "to all"] += size * times
    rounds = sum(
        max(links[kind], math.ceil(size / _ROUND_BYTES)) for kind, size in large.items() if size and links[kind] > 1
    )
    # A rank with one link needs no link rounds.
    return rounds * scenario.nodes
