# SPDX-License-Identifier: Apache-2.0
"""The memory and the error of plans follow the formulas of docs/algorithms.md."""

from __future__ import annotations

import pytest

from hipress.secopa.plan.choice import Choice
from hipress.secopa.planners.limits import memory_bytes, relative_error
from hipress.secopa.planners.units import Unit
from hipress.secopa.profile.profile import Profile, RankPlace
from tests.secopa.profiles import codec, profile

R, C, T, K = 4 * 2**20, 1 / 8, 2, 16
UNIT = Unit((0,), R // 4, R, "float32", 0.0, ("small",))


def on(hosts: int, ranks_each: int, states: int = 0) -> Profile:
    """A profile with T threads and a codec that reduces every tensor to an eighth."""
    costs = codec(C, 1e9).model_copy(update={"states": states, "relative_error": 0.5})
    ranks = tuple(RankPlace(host=f"h{host}", machine=f"h{host}", cores=2) for host in range(hosts)) * ranks_each
    content = {**profile({"small": costs}).model_dump(), "ranks": ranks, "compute_threads": T}
    content["shared_memory"] = content["link"]
    return Profile.model_validate(content)


@pytest.mark.parametrize(
    ("topology", "raw", "compressed"),
    [
        ("ps", 7 / 8, 2 * C * 7 / 8 + T / K),
        ("ring", 7 / 8, C + T / K),
        ("allgather", 7, 8 * C),
        ("hierarchical", 1 / 2 + 3 / 8, (1 + C) / 2 + C * 3 / 8 + T / K),
        ("hierarchical(ring)", 1 / 2 + 3 / 8, (1 + C) / 2 + C * 3 / 8 + T / K),
        ("hierarchical(allgather)", 1 / 2 + 3 / 2, 1 / 2 + C * 3 / 2 + T / K),
    ],
)
def test_memory(topology: str, raw: float, compressed: float) -> None:
    """There are eight ranks, two on each of four hosts."""
    remembered = 1 + T / K
    for codec_name, states, expected in (("none", 0, raw), ("small", 0, compressed), ("small", 2, compressed)):
        found = memory_bytes([UNIT], [Choice(codec_name, topology, K)], on(4, 2, states), 8)
        assert found == pytest.approx(R * (expected + states * remembered))


def test_the_error_counts_elements() -> None:
    units = [UNIT, UNIT, UNIT, UNIT]
    choices = [Choice("small"), Choice(), Choice(), Choice()]
    assert relative_error(units, choices, on(2, 1)) == pytest.approx(0.25)
    assert relative_error(units, [Choice()] * 4, on(2, 1)) == 0.0
    assert relative_error([], [], on(2, 1)) == 0.0
