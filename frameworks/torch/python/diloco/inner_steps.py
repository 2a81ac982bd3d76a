# SPDX-License-Identifier: Apache-2.0
"""The number of a rank's inner steps."""

from __future__ import annotations


class InnerSteps:
    """See hipress.unfinished.Step. It is no part of DiLoCo's object, which may be gone when the rank leaves."""

    def __init__(self) -> None:
        self.taken = 0

    def steps_taken(self) -> int:
        """Number of inner steps, which the other ranks' errors name when this rank leaves the job."""
        return self.taken

    def unfinished(self) -> str | None:
        """None: between exchanges a rank owes the others nothing."""
        return None
