# SPDX-License-Identifier: Apache-2.0
"""A rank's place in its job, and the address of rank 0, as the launcher's environment gives them."""

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
    """One rank's place in its job, and the address of rank 0.

    Rank 0 serves at `host` and `port` (port 0: any free port, only in a job of one rank). `listen_fd` is a listening
    socket that rank 0 takes over; the receiver of this object owns it. None: rank 0 binds `host:port`. `token` is the
    job token, which repr() does not show. `source` is the launcher's name, for errors.
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
    world: int = 0
    """The number of the world in an elastic job, whose next init() may give this process another place."""

    def __repr__(self) -> str:
        return (
            f"Rendezvous(rank={self.rank}, size={self.size}, local_rank={self.local_rank}, "
            f"local_size={self.local_size}, host={self.host!r}, port={self.port}, listen_fd={self.listen_fd}, "
            f"token=<hidden>, source={self.source!r})"
        )
