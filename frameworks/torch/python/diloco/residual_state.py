# SPDX-License-Identifier: Apache-2.0
"""Residuals in saved states: each rank's own, or of all ranks of a job with another number of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.diloco.averaging import Values
from hipress.torch.states.state_sum import SUM, check_against, sum_of


def saved_residuals(residuals: Values | None, rank: int, world: int) -> dict[str, Any] | None:
    """The value of "residuals" in the state of rank `rank` of `world`."""
    if residuals is None:
        return None
    values = {name: each.clone() for name, each in residuals.items()}
    return {"rank": rank, "world": world, "values": values, SUM: sum_of(values)}


def residuals_for(states: Sequence[Mapping[str, Any]], own: Values | None, rank: int, world: int) -> Values | None:
    """The residuals with which this rank continues; None: it has none. `own`: its residuals now. `states`: one, or all
    old ranks'.

    If the number of ranks is the same, a rank takes its own residuals. Otherwise it takes the mean of the old ranks'
    residuals, so that the mean over the new ranks is equal to it. Raises InvalidArgument.
    """
    saved: list[Any] = [each.get("residuals") for each in states]
    if all(each is None for each in saved):
        # Before that, nothing was left out.
        return None if own is None else {name: torch.zeros_like(each) for name, each in own.items()}
    if own is None:
        raise InvalidArgument(
            "the state has residuals of SparseLoCo, which this codec would not send: give DiLoCo() a SparseLoCo codec"
        )
    for each in saved:
        _check(each, own)
    if len(saved) == 1:
        of = saved[0]
        if (of["rank"], of["world"]) != (rank, world):
            raise InvalidArgument(
                f"the state is of rank {of['rank']} of {of['world']}, and this is rank {rank} of {world}: its "
                "residuals are that rank's own; give the list of all old ranks' states, in their order"
            )
        check_against(of.get(SUM), functools.partial(sum_of, of["values"]))
        return dict(of["values"])
    for place, each in enumerate(saved):
        if (each["rank"], each["world"]) != (place, len(saved)):
            raise InvalidArgument(
                f"state {place} of {len(saved)} is of rank {each['rank']} of {each['world']}: give the states of all "
                "old ranks, in their order"
            )
    for each in saved:
        check_against(each.get(SUM), functools.partial(sum_of, each["values"]))
    if len(saved) == world:
        return dict(saved[rank]["values"])
    return {name: torch.stack([each["values"][name] for each in saved]).mean(0) for name in own}


def _check(saved: Any, own: Values) -> None:
    if saved is None:
        raise InvalidArgument("some of the states have residuals of SparseLoCo, and some have none")
    if not isinstance(saved, Mapping) or not saved.keys() >= {"rank", "world", "values"}:
        raise InvalidArgument("the state's residuals lack rank, world or values: give what state_dict() returned")
    values = saved["values"]
    for name, each in own.items():
        if name not in values:
            raise InvalidArgument(f"the state's residuals lack '{name}': it is of another model")
        if values[name].dtype != each.dtype or values[name].shape != each.shape:
            raise InvalidArgument(
                f"the residual of '{name}' is of {values[name].dtype} and shape {list(values[name].shape)} in the "
                f"state, and of {each.dtype} and {list(each.shape)} here: it is of another model"
            )
        if not bool(values[name].isfinite().all()):
            raise InvalidArgument(f"the state's residual of '{name}' is not finite: the file is damaged")
    if unknown := [name for name in values if name not in own]:
        raise InvalidArgument(f"the state's residuals have '{unknown[0]}', which this model has not")
