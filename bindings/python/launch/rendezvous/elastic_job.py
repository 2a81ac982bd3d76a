# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of `hipress run --elastic`: each init() asks for this process' place in the next world."""

from __future__ import annotations

from collections.abc import Mapping

from hipress.errors import InvalidArgument
from hipress.launch.rendezvous.place import Place, Rendezvous
from hipress.launch.worlds.seat import ADDRESS, seat_in


def place_in_elastic_job(_environ: Mapping[str, str]) -> Place:
    """Raises InvalidArgument: a process has no place before init()."""
    raise InvalidArgument(f"a process of an elastic job ({ADDRESS} is set) has no rank before init()")


def from_elastic_job(environ: Mapping[str, str], _timeout: float) -> Rendezvous:
    """Waits for this process' place, with the launcher's deadline. Raises InvalidArgument, PeerLost, Timeout."""
    return seat_in(environ).next_place()
