# SPDX-License-Identifier: Apache-2.0
"""The codec states of all ranks as one value, for trainers that save what one rank returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hipress.errors import InvalidArgument

_RANKS = "ranks"


def saved_ranks(states: Sequence[Any]) -> dict[str, Any]:
    """What ranks_in() takes. `states`: of all ranks, as HookState.states_of_all() returns them."""
    return {_RANKS: list(states)}


def ranks_in(saved: Mapping[str, Any]) -> list[Any]:
    """The states of all ranks in what saved_ranks() has returned. Raises InvalidArgument."""
    if _RANKS not in saved:
        raise InvalidArgument(
            f"the checkpoint has codec states with the keys {sorted(saved)}, which no integration of HiPress wrote"
        )
    return list(saved[_RANKS])
