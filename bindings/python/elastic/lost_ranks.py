# SPDX-License-Identifier: Apache-2.0
"""What lost ranks have taken with them: residuals that their codecs had not sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from hipress.log import logger


@dataclass(frozen=True)
class Loss:
    """A process that a world had and the next one has not."""

    process: int
    """The number of the process in the job."""
    rank: int
    """Its rank."""
    commits: int
    """The number of the last commit in which it took part."""
    residual_norm: float
    """The norm of what its codecs had not sent at that commit, and now never will."""
    residual_share: float
    """The part of the sum of all ranks' squared norms: 0.25 for one of four equal ranks."""


_last: list[Mapping[str, Any]] = []
_losses: list[Loss] = []


def losses() -> list[Loss]:
    """The losses of this job that this process has seen, the earliest first."""
    return list(_losses)


def note(gathered: Iterable[Mapping[str, Any]]) -> None:
    """All ranks have committed: each has its process, its position, and the squared norm of its residuals."""
    global _last
    _last = list(gathered)


def leave_out(ranks: Collection[int]) -> None:
    """These ranks are late: the next world lacks them, and their residuals are not lost."""
    global _last
    _last = [each for rank, each in enumerate(_last) if rank not in ranks]


def count(present: Iterable[int], *, says: bool) -> None:
    """The next world has these processes. Notes which are missing; `says`: this rank reports them."""
    global _last
    here = set(present)
    total = sum(each["residual"] for each in _last)
    for rank, each in enumerate(_last):
        if each["process"] in here:
            continue
        share = each["residual"] / total if total else 0.0
        loss = Loss(each["process"], rank, each["at"][0], sqrt(each["residual"]), share)
        _losses.append(loss)
        if says:
            residual = f"a residual of norm {loss.residual_norm:.3g}, {share:.0%} of all ranks', is lost with it"
            logger().info(
                f"process {loss.process} (rank {rank}) is lost since commit {loss.commits}; "
                + (residual if total else "its codecs had no residual")
            )
    _last = [each for each in _last if each["process"] in here]
