# SPDX-License-Identifier: Apache-2.0
"""The topologies that `--topology best` tries, and the selection of the measured ones."""

from __future__ import annotations

from collections.abc import Mapping

#: A topology may be the fastest one if its trial takes at most this factor longer.
WITHIN = 1.1
#: The largest number of measured topologies of a codec.
MOST = 2
#: If the fastest trial takes longer (seconds), only that topology is measured.
LONG = 1.0


def candidates(codec: str, nodes: int, ranks_per_node: int) -> list[str]:
    """The topologies that make sense; without an emulated cluster `nodes` is 1. It leaves out topologies that equal
    another one, or that send so many more bytes that they cannot be the fastest.

    - A ring of two ranks sends the same messages in the same order as ps.
    - hierarchical with one rank per node equals its inner topology; on one node it compresses nothing.
    - allgather without compression sends N/2 times the bytes of the others; with compression it encodes only once.
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
    """The fastest topology and, unless it takes long, one more that is nearly as fast. `trials`: seconds of each."""
    fastest = sorted(trials, key=lambda topology: trials[topology])
    most = MOST if trials[fastest[0]] <= LONG else 1
    return [topology for topology in fastest if trials[topology] <= WITHIN * trials[fastest[0]]][:most]
