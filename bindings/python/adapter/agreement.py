# SPDX-License-Identifier: Apache-2.0
"""Compares values that must be the same on all ranks, before any code depends on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hipress import runtime
from hipress.adapter.objects import allgather_object
from hipress.errors import HipressError, Mismatch


def agree(describe: Callable[[], Mapping[str, str]]) -> None:
    """Compares the results of `describe()` of all ranks. All ranks call it.

    If `describe()` raises on a rank, that rank raises the error and all other ranks raise Mismatch. Raises Mismatch
    with the first difference; Timeout if a rank does not call it.
    """
    agree_among(describe, allgather_object, runtime.rank())


def agree_among(
    describe: Callable[[], Mapping[str, str]], gather: Callable[[Any], Sequence[Any]], own_rank: int
) -> None:
    """agree() among the ranks whose values `gather()` returns in rank order. Also raises the errors of `gather()`."""
    error: HipressError | None = None
    own: Mapping[str, str] = {}
    try:
        own = describe()
    except HipressError as raised:
        error = raised
    all_ranks = gather((dict(own), None if error is None else str(error)))
    if error is not None:
        raise error
    for rank, (theirs, problem) in enumerate(all_ranks):
        if problem is not None:
            raise Mismatch(f"rank {rank} refused, so nothing was changed on any rank: {problem}")
        for key in own:
            if theirs.get(key) != own[key]:
                raise Mismatch(
                    f"the ranks differ in {key}: rank {own_rank} has {own[key]}, rank {rank} has "
                    f"{theirs.get(key)}; it must be the same on all ranks"
                )
