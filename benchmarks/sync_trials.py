# SPDX-License-Identifier: Apache-2.0
"""Which topologies `--topology best` tries, and which of them are worth measuring."""

from __future__ import annotations

from collections.abc import Mapping

#: Of a trial's times: whoever is within it may be the fastest after all.
WITHIN = 1.1
#: Measured of each codec, at most.
MOST = 2
#: Where the fastest takes longer (seconds), a trial says enough: only that one is measured.
LONG = 1.0


def candidates(codec: str, nodes: int, ranks_per_node: int) -> list[str]:
    """Those that make sense; without an emulated cluster `nodes` is 1. Left out is what is another one by construction,
    and what sends so much more that it cannot win.

    - Of two ranks on two nodes a ring is ps: the same messages in the same order.
    - Hierarchical with one rank per node is its inner topology; on one node it compresses nothing.
    - allgather of values as they are sends N/2 times the bytes of the others; encoded ones it encodes only once.
    """
    world = nodes * ranks_per_node
    names = ["ps"]
    if world > 2:
        names.append("ring")
    if world == 2 or (world > 2 and codec != "none"):
        names.append("allgather")
    if nodes > 1 and ranks_per_node > 1:
        names += ["hierarchical", "hierarchical(ring)"] if nodes > 2 else ["hierarchical"]
    return names


def promising(trials: Mapping[str, float]) -> list[str]:
    """The fastest first; unless it takes long, at most one more that is nearly as fast. `trials`: seconds of each."""
    fastest = sorted(trials, key=lambda topology: trials[topology])
    most = MOST if trials[fastest[0]] <= LONG else 1
    return [topology for topology in fastest if trials[topology] <= WITHIN * trials[fastest[0]]][:most]
