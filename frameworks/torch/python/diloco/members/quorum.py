# SPDX-License-Identifier: Apache-2.0
"""When an exchange of an elastic job begins without late ranks."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.errors import InvalidArgument


@dataclass(frozen=True)
class Quorum:
    """How DiLoCo() treats late ranks in an elastic job (after Decoupled DiLoCo, arXiv 2604.21428).

    Once `least` ranks have come to an exchange, they wait `grace` × the time since the last exchange for the others,
    and at least a second. Then they exchange without them. A late rank's steps are not lost: what it has learnt is part
    of the next exchange to which it comes. It may miss `most_late` exchanges in a row; the next one waits for it.

    Raises InvalidArgument for other numbers than those below.
    """

    least: int
    """At least 1."""
    grace: float = 0.1
    """At least 0."""
    most_late: int = 1
    """At least 1."""

    def __post_init__(self) -> None:
        for name in ("least", "most_late"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgument(f"{name}={value!r}: give a whole number of at least 1")
        if not isinstance(self.grace, (int, float)) or isinstance(self.grace, bool) or not 0 <= self.grace < 1e6:
            raise InvalidArgument(f"grace={self.grace!r}: give a share of the time between two exchanges, at least 0")
