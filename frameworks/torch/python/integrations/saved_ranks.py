# SPDX-License-Identifier: Apache-2.0
"""The codec states of all ranks as one value, for trainers that save what one rank returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hipress.errors import InvalidArgument
from hipress.torch.ddp import HookState

_RANKS = "ranks"


def states_of_ranks(state: HookState) -> dict[str, Any]:
    """What load_ranks() takes. All ranks of the group call it."""
    return {_RANKS: state.states_of_all()}


def ranks_in(saved: Mapping[str, Any]) -> list[Any]:
    """The states of all ranks in what states_of_ranks() has returned. Raises InvalidArgument."""
    if _RANKS not in saved:
        raise InvalidArgument(
            f"the checkpoint has codec states with the keys {sorted(saved)}, which no integration of HiPress wrote"
        )
    return list(saved[_RANKS])
