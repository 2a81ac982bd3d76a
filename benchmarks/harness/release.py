# SPDX-License-Identifier: Apache-2.0
"""Releases gradients to a benchmark, in a given order and at given times."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.models import GradientSet

#: The values of --release: all gradients at once, or each gradient at its release time.
RELEASES = ("all", "backward")


class Release:
    """Releases all gradients at once in the order of backward, or each gradient at its release time.

    Between release times the rank sleeps, so the processor is idle, as with a model on an accelerator.
    """

    def __init__(self, gradients: GradientSet, release: str) -> None:
        indices = range(len(gradients.gradients))
        self._times = [gradient.ready_s if release == "backward" else 0.0 for gradient in gradients.gradients]
        #: Indices in the order of release.
        self.order = sorted(indices, key=lambda index: (self._times[index], -index))

    def gradients(self) -> Iterator[int]:
        """Yields each index at its release time; the first call starts the clock."""
        start = time.perf_counter()
        for index in self.order:
            left = start + self._times[index] - time.perf_counter()
            if left > 0:
                time.sleep(left)
            yield index
