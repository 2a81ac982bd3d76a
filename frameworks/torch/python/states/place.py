# SPDX-License-Identifier: Apache-2.0
"""Whose states a checkpoint has. With topology "allgather" the states of all ranks have the same names and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.group_calls import Group

#: The key of a saved state's rank and number of ranks.
PLACE = "place"


def place_in(group: Group | None) -> list[int]:
    """This rank and the number of ranks of the group; None: there is no group."""
    return [0, 1] if group is None else [dist.get_rank(group), dist.get_world_size(group)]


def check_place(state: Mapping[str, Any], own: Sequence[int]) -> None:
    """Raises InvalidArgument for the state of another rank, or of another number of ranks. States of earlier versions
    have no place.

    `own`: this rank and the number of ranks.
    """
    saved = state.get(PLACE)
    if saved is None or [int(each) for each in saved] == list(own):
        return
    raise InvalidArgument(
        f"the state is of rank {int(saved[0])} of {int(saved[1])}, and this is rank {own[0]} of {own[1]}: what codecs "
        "hold back is that rank's own, and not sent by another rank; load what this rank of as many ranks saved, or "
        "give load_states_of() the states of all ranks"
    )
