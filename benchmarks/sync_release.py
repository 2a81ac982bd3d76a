# SPDX-License-Identifier: Apache-2.0
"""The order and the times at which gradients come to be synchronised."""

from __future__ import annotations

import time
from collections.abc import Iterator

from models import GradientSet


class Release:
    """All gradients at once, last layer first as backward has them; or each at the time at which backward had it.

    Times are waited for, not computed through: the processor is free meanwhile, as with a model on an accelerator.
    """

    def __init__(self, gradients: GradientSet, release: str) -> None:
        indices = range(len(gradients.gradients))
        self._times = [gradient.ready_s if release == "backward" else 0.0 for gradient in gradients.gradients]
        #: Indices in the order in which they come.
        self.order = sorted(indices, key=lambda index: (self._times[index], -index))

    def gradients(self) -> Iterator[int]:
        """Each index when it has come; the first call starts the clock."""
        start = time.perf_counter()
        for index in self.order:
            left = start + self._times[index] - time.perf_counter()
            if left > 0:
                time.sleep(left)
            yield index
