# SPDX-License-Identifier: Apache-2.0
"""The end of a world of ranks, and the beginning of the next one, as one of its processes goes through them."""

from __future__ import annotations

import json
from typing import Any

from hipress import runtime
from hipress.adapter.lists.restarting import restart_lists
from hipress.elastic import lost_ranks
from hipress.errors import CorruptPayload, HipressError, PeerLost, Timeout, TransportError
from hipress.launch.worlds.seat import Seat

#: So many worlds may end in a row without a commit before the error that ended the last one ends the job.
_MOST_WORLDS = 8
#: The errors that come from other ranks, or from the network.
_FROM_OTHERS = (CorruptPayload, PeerLost, Timeout, TransportError)


def ends_world(error: HipressError, own: Seat | None) -> bool:
    """Whether the job can go on after it, in another world: an operation among the ranks has failed."""
    if type(error) is HipressError:
        return True  # a program raises it by hand, as Horovod's HorovodInternalError
    # Errors of the other ranks and of the network. The engine may hear of them later than the operation.
    return own is not None and (isinstance(error, _FROM_OTHERS) or runtime.has_failed())


class WorldsLeft:
    """Counts the worlds that end in a row without a commit."""

    def __init__(self) -> None:
        self._left, self._commits = _MOST_WORLDS, -1

    def count(self, own: Seat, error: HipressError) -> bool:
        """The world has ended with this error, which the launcher reports. Returns whether another one may follow."""
        self._left = self._left - 1 if own.commits == self._commits else _MOST_WORLDS
        self._commits, own.why = own.commits, str(error)
        return self._left > 0


def reset() -> None:
    """Leaves the world of these ranks, and comes into the next one."""
    runtime.shutdown()
    runtime.init()


def meet(own: Seat, about: Any = None) -> list[Any]:
    """All ranks of a world have come to their training. From here on the commits of rank 0 count. The ranks agree on
    the gradients of their optimizers.

    Returns the `about` of each rank, in rank order. `about` is plain values.
    """
    process = runtime.current()
    said = json.dumps([own.number, own.commits, about]).encode()
    gathered = [json.loads(each) for each in process.engine.allgather("processes", said)]
    own.commits = max(commits for _, commits, _ in gathered)
    lost_ranks.count([number for number, _, _ in gathered], says=process.place.rank == 0)
    restart_lists()
    own.has_met = True
    return [each for _, _, each in gathered]
