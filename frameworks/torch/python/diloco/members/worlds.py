# SPDX-License-Identifier: Apache-2.0
"""The worlds of an elastic job, in which a DiLoCo takes part one after the other."""

from __future__ import annotations

from collections.abc import Callable

from hipress import runtime
from hipress.elastic import lost_ranks
from hipress.elastic.interrupts import HostsUpdatedInterrupt
from hipress.elastic.worlds import WorldsLeft, ends_world, reset
from hipress.errors import HipressError
from hipress.launch.worlds.seat import Seat
from hipress.log import logger
from hipress.torch.diloco.members.quorum import Quorum


class Worlds:
    """Lets this rank go on with the others when ranks are lost, late or new.

    Arguments:
        seat: this process' connection to the launcher.
        quorum: None: an exchange waits for all ranks.
    """

    def __init__(self, seat: Seat, quorum: Quorum | None) -> None:
        self.seat = seat
        self._terms = (0, 0, 0) if quorum is None else (quorum.least, quorum.grace, quorum.most_late)
        self._worlds_left = WorldsLeft()

    def await_others(self, *, trains: bool) -> None:
        """Waits until all ranks of the world have come to the exchange. `trains`: whether this rank's training goes on.

        Raises HostsUpdatedInterrupt, on all ranks, if others wait to come in, one is to leave, or one is late.
        """
        late = self.seat.is_here(self._terms if trains else None)
        if late is None:
            return
        if late:
            lost_ranks.leave_out(late)
            ranks = ", ".join(map(str, late))
            runtime.current().engine.fail("PeerLost", f"rank {ranks} is late, and the others go on without it")
        raise HostsUpdatedInterrupt

    def go_on(self, action: Callable[[], None], enter: Callable[[], None]) -> None:
        """Calls `action()`. When that ends with the world of this rank, it comes into the next world, calls `enter()`
        there, and `action()` again. Raises the error of a job that cannot go on."""
        enters = False
        while True:
            try:
                if enters:
                    reset()
                    enter()
                    enters = False
                return action()
            except HostsUpdatedInterrupt:
                enters = True
            except HipressError as error:
                if not self._has_another(error):
                    raise
                enters = True

    def _has_another(self, error: HipressError) -> bool:
        if not ends_world(error, self.seat) or not self._worlds_left.count(self.seat, error):
            return False
        logger().info(f"repeats an exchange with the ranks that are left, because {error}")
        return True
