# SPDX-License-Identifier: Apache-2.0
"""A rank's place and meeting point, as read from a launcher's environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """One rank's place in its job."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @property
    def on_one_host(self) -> bool:
        """Whether all ranks are on this host."""
        return self.local_size == self.size


@dataclass(frozen=True)
class Rendezvous:
    """One rank's place in its job, and the meeting point of all ranks.

    `host` and `port` are where rank 0 serves (port 0: any free one; only in a world of one). `listen_fd` is a
    listening socket for rank 0 to take over, owned by the receiver of this object; None: bind `host:port`. `token`
    is the job's secret and is kept out of repr(). `source` names the launcher, for messages.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    port: int
    listen_fd: int | None
    token: str
    source: str

    def __repr__(self) -> str:
        return (
            f"Rendezvous(rank={self.rank}, size={self.size}, local_rank={self.local_rank}, "
            f"local_size={self.local_size}, host={self.host!r}, port={self.port}, listen_fd={self.listen_fd}, "
            f"token=<hidden>, source={self.source!r})"
        )
