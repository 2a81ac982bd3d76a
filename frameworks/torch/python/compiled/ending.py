# SPDX-License-Identifier: Apache-2.0
"""A collective on its way whose last part runs when a graph waits for it."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import torch.distributed as dist


class Ending(dist.Work):
    """Its wait decodes. On a GPU the decoding then follows on the stream that waits."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end: Callable[[], None] | None = end

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """See torch's Work; the group's own timeout holds."""
        end, self._end = self._end, None
        if end is not None:
            end()
        return True
