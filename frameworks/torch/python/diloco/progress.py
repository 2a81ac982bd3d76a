# SPDX-License-Identifier: Apache-2.0
"""How far a rank's training has come."""

from __future__ import annotations

from hipress.torch.diloco.inner_steps import InnerSteps
from hipress.torch.diloco.members.meeting import Position
from hipress.torch.diloco.state import Exchange
from hipress.torch.diloco.tokens import Tokens


class Progress:
    """Counts of one rank. `fragments`: their number."""

    def __init__(self, fragments: int) -> None:
        self.steps = InnerSteps()
        self.tokens = Tokens(fragments)
        self.exchanges = 0
        """Begun since the start of the training, before a checkpoint too."""
        self.applied = -1
        """Exchanges whose averages have been used; -1: this rank has met no others yet."""
        self.begun_after = 0
        """After which inner step the last exchange has begun."""
        self.exchange: Exchange | None = None
        """The one whose averages have not been used."""

    @property
    def number(self) -> int:
        """Of the exchange that begins, or begins again, from 0 on."""
        return self.exchanges - (self.exchange is not None)

    def begun(self, exchange: Exchange) -> None:
        """An exchange is on its way."""
        self.exchanges = self.number + 1
        self.exchange, self.begun_after = exchange, self.steps.taken

    def used(self, exchange: Exchange) -> None:
        """Its averages are the training's now."""
        self.exchange = None
        self.tokens.sent(exchange.fragment, exchange.tokens)
        self.applied += 1

    def saved_tokens(self) -> list[float]:
        """Of each fragment, as if the exchange on its way had ended."""
        saved = self.tokens.saved()
        if self.exchange is not None:
            saved[self.exchange.fragment] = self.tokens.total - self.exchange.tokens
        return saved

    def position(self) -> Position:
        """For the other ranks."""
        on_its_way = (self.exchange.fragment, self.exchange.due) if self.exchange is not None else (None, 0)
        return Position(self.applied, self.number, self.steps.taken, self.begun_after, *on_its_way)

    def catch_up(self, first: Position) -> None:
        """This rank has the outer parameters of the rank `first`, which was before it.

        If an exchange has ended for the others, and failed here, this rank goes on with its own steps. A rank that is
        new, or was late, goes on at the other one's place.
        """
        own, exchange = self.position(), self.exchange
        if exchange is not None:
            self.tokens.sent(exchange.fragment, exchange.tokens)
        self.exchange, self.exchanges, self.applied = None, first.exchanges, first.applied
        if exchange is not None and first.applied == own.applied + 1:
            return
        self.steps.taken, self.begun_after = first.steps, first.begun_after
        if first.fragment is not None:
            self.steps.taken = first.due
            self.exchange = Exchange(first.fragment, first.due, dict)
            self.exchanges += 1
