# SPDX-License-Identifier: Apache-2.0
"""The positions that the ranks of a new world tell each other, and how a rank that is behind catches up.

A rank is behind if others have used the averages of an exchange, and it has not: because it is new, was late, or lost
its connection in the middle of the exchange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from hipress.torch.diloco.averaging import Values
from hipress.torch.diloco.outer import OuterParameters
from hipress.torch.state import broadcast_optimizer_state, broadcast_parameters


@dataclass(frozen=True)
class Position:
    """Of a rank in its training, in plain values."""

    applied: int
    """The exchanges whose averages it has used since the job began; below 0: it is new."""
    exchanges: int
    """The same, and those of the time before a checkpoint."""
    steps: int
    """Its inner steps."""
    begun_after: int
    """After which of them its last exchange has begun."""
    fragment: int | None = None
    """Of the exchange whose averages it has not used; None: of all exchanges that it has begun it has."""
    due: int = 0
    """After which inner step it uses them."""

    def is_behind(self, other: Position) -> bool:
        """Whether the other one has used the averages of more exchanges."""
        return self.applied < other.applied


def foremost(positions: Sequence[Position]) -> int:
    """The rank from which the others catch up."""
    return max(range(len(positions)), key=lambda rank: (positions[rank].applied, positions[rank].due, -rank))


@dataclass(frozen=True)
class Shared:
    """What all ranks get of the foremost one."""

    outer: Values
    """The outer parameters."""
    others: Values
    """What of the model is not trained, such as buffers."""


def share_outer(model: torch.nn.Module, outer: OuterParameters, root: int) -> Shared:
    """Gives all ranks the outer parameters and the outer optimizer of rank `root`. The optimizer changes last, and
    nothing else does: an error leaves this rank as it was."""
    shared = Shared(
        {name: each.detach().clone() for name, each in outer.values.items()},
        {name: each.detach().clone() for name, each in untrained(model, outer).items()},
    )
    broadcast_parameters(shared.outer, root)
    broadcast_parameters(shared.others, root)
    broadcast_optimizer_state(outer.optimizer, root)
    for each in outer.values.values():
        each.grad = None  # the broadcast leaves zeros, and a step would then move fragments that have no averages
    return shared


def untrained(model: torch.nn.Module, outer: OuterParameters) -> Values:
    """The tensors of the model that have no outer parameter."""
    tensors = ((name, each) for name, each in model.state_dict().items() if isinstance(each, torch.Tensor))
    return {name: each for name, each in tensors if name not in outer.values}


@torch.no_grad()
def rebase(inner: Mapping[str, torch.Tensor], outer: OuterParameters, shared: Shared) -> None:
    """Moves the inner parameters as far as the outer ones will move, so the pseudo-gradients stay the same."""
    for name, each in inner.items():
        each.add_((shared.outer[name] - outer.values[name].detach()).to(each.device))
