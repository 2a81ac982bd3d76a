# SPDX-License-Identifier: Apache-2.0
"""A rank that is behind the others goes on at its place: the positions that ranks tell each other, and parameters."""

from __future__ import annotations

import torch

from hipress.torch.diloco.members.meeting import Position, Shared, foremost, rebase
from hipress.torch.diloco.outer import OuterParameters
from hipress.torch.diloco.progress import Progress
from hipress.torch.diloco.state import Exchange


def _progress(steps: int, applied: int, exchange: Exchange | None = None, tokens: float = 0.0) -> Progress:
    progress = Progress(2)
    progress.steps.taken, progress.applied, progress.exchanges = steps, applied, applied
    progress.tokens.total = tokens
    if exchange is not None:
        progress.begun(exchange)
    return progress


def test_the_foremost_rank_has_used_most_exchanges_and_then_knows_what_is_on_its_way() -> None:
    behind, ahead = Position(3, 3, 40, 30), Position(4, 4, 45, 40)
    begun = Position(4, 4, 52, 50, 0, 52)
    assert foremost([behind, ahead]) == 1
    assert foremost([ahead, behind, begun]) == 2
    assert foremost([ahead, ahead]) == 0
    assert behind.is_behind(ahead)
    assert not ahead.is_behind(begun)


def test_a_new_rank_begins_with_the_exchange_that_the_others_begin() -> None:
    progress = Progress(2)
    assert progress.position().applied < 0
    progress.catch_up(Position(4, 7, 50, 40))
    assert (progress.applied, progress.exchanges, progress.steps.taken) == (4, 7, 50)
    assert progress.begun_after != 50  # its own is yet to begin
    assert progress.exchange is None


def test_a_new_rank_takes_part_in_an_exchange_that_the_others_begin_again() -> None:
    progress = Progress(2)
    progress.catch_up(Position(4, 7, 52, 50, 1, 52))
    assert progress.exchange is not None
    assert (progress.exchange.fragment, progress.exchange.due) == (1, 52)
    assert (progress.number, progress.exchanges, progress.steps.taken) == (7, 8, 52)
    progress.begun(Exchange(1, 52, dict))
    assert progress.exchanges == 8


def test_a_rank_whose_exchange_has_failed_here_only_goes_on_with_its_own_steps() -> None:
    progress = _progress(40, 3, Exchange(1, 42, dict, tokens=80.0), tokens=80.0)
    progress.tokens.total = 84.0
    progress.catch_up(Position(4, 4, 50, 40))
    assert (progress.applied, progress.exchanges, progress.steps.taken, progress.exchange) == (4, 4, 40, None)
    assert progress.begun_after == 40
    assert progress.tokens.since(1) == 4.0  # what it has sent is part of the others' average


def test_a_late_rank_goes_on_at_the_others_place_and_keeps_its_weight() -> None:
    progress = _progress(30, 2, tokens=60.0)
    progress.catch_up(Position(5, 5, 60, 50))
    assert (progress.applied, progress.steps.taken, progress.begun_after) == (5, 60, 50)
    assert progress.tokens.since(0) == 60.0


def test_what_a_late_rank_has_learnt_stays_its_pseudo_gradient() -> None:
    inner = {"w": torch.nn.Parameter(torch.tensor([1.0, 2.0]))}
    outer = OuterParameters(inner, torch.optim.SGD(inner.values(), 1.0))
    own = {"w": inner["w"].detach()}
    own["w"].add_(0.5)
    before = outer.pseudo_gradient("w", own["w"])
    shared = Shared({"w": torch.tensor([10.0, -4.0])}, {})
    rebase(own, outer, shared)
    outer.begin(shared.outer)
    assert torch.equal(outer.pseudo_gradient("w", own["w"]), before)
