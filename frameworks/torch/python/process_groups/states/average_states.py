# SPDX-License-Identifier: Apache-2.0
"""What one rank remembers for an average, in checkpoints: of the same rank, and of jobs of other sizes or codecs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.exchange import Exchange
from hipress.torch.process_groups.layout import Compressed
from hipress.torch.process_groups.linked import LinkedAverage, is_linked, mean_states
from hipress.torch.process_groups.states.resharding import (
    SavedStates,
    carried_states,
    own_keys,
    states_for,
    unsent_for,
)
from hipress.torch.process_groups.states.residuals import RESIDUAL, Floats
from hipress.torch.process_groups.states.unsent import OF_AVERAGE, OF_GRADIENT, ROLES, Unsent
from hipress.torch.scaling.units import Unit, unscaled


@dataclass(frozen=True)
class Travelling:
    """How the tensors of an average travel."""

    counts: Mapping[str, int]
    """Elements of all tensors."""
    compressed: Sequence[Compressed]
    """Those that travel encoded."""


class AverageStates:
    """The states of an average's parts on this rank."""

    def __init__(self, exchange: Exchange, linked: LinkedAverage, unsent: Unsent, unit: Unit) -> None:
        self._exchange, self._linked, self._unsent, self._unit = exchange, linked, unsent, unit

    def state_dict(self) -> dict[str, Any]:
        """Copies of all states, in the unit of the gradient."""
        scale = self._unit.scale()
        states = unscaled(self._exchange.residuals.state_dict(), scale)
        states.update(unscaled(self._linked.state_dict(), scale, but="factor"))
        states.update(self._unsent.state_dict())
        return states

    def load(self, state: SavedStates, how: Travelling, *, moved: bool = False) -> None:
        """Goes on from what state_dict() returned on this rank of as many ranks, also with other codecs.

        `moved`: other ranks may encode the tensors than when the states were made. What this rank does not encode any
        more joins its next gradients.

        Raises InvalidArgument; the states are then what they were.
        """
        own = own_keys(how.compressed, self._exchange.ranks)
        left = _left(state, own) if moved else frozenset()
        codecs = {tensor.name: tensor.codec for tensor in how.compressed if tensor.name not in left}
        linked: dict[str, Any] = {}
        kept: dict[str, Any] = {}
        other: dict[str, Any] = {}
        for key, values in state.items():
            name, role, first, count = _fields(key)
            if is_linked(key) and self._linked.takes(key, values):
                linked[key] = values
                continue
            states = codecs[name].states if name in codecs and role in ("worker", "aggregator") else ()
            going_on = {each: array for each, array in values.items() if each in states}
            if going_on:
                kept[key] = going_on
            if RESIDUAL in values and RESIDUAL not in going_on:
                _check_shape(name, first, count, values[RESIDUAL], how.counts)
                other[key] = values[RESIDUAL]
        loaded = self._exchange.residuals.checked(kept, how.counts, own, codecs)
        self._linked.load_state_dict(linked)
        self._exchange.residuals.table = loaded
        self._unsent.adopt(_unsent(other, how.counts))
        self._unit.reset()

    def load_of_all(self, saved: Sequence[SavedStates], how: Travelling) -> None:
        """Goes on from what state_dict() returned on all ranks, in their order, of a job of any size."""
        ranks = self._exchange.ranks
        regular = [{key: values for key, values in states.items() if not is_linked(key)} for states in saved]
        states = states_for(how.compressed, regular, ranks)
        encoded = {tensor.name for tensor in how.compressed}
        states.update(unsent_for(regular, ranks.rank, ranks.world, encoded=encoded))
        self.load({**states, **mean_states(saved)}, how)

    def carry(self, state: SavedStates, how: Travelling) -> None:
        """Goes on from what state_dict() returned on this rank in a group of other ranks, which had sums, too."""
        self.load(carried_states(how.compressed, state, self._exchange.ranks), how)


def _left(state: SavedStates, own: Mapping[str, set[str]]) -> frozenset[str]:
    """The tensors of which this rank has states of other elements than it encodes now."""
    found: dict[str, set[str]] = {}
    for key in state:
        name, role, *_ = _fields(key)
        if role in ("worker", "aggregator"):
            found.setdefault(name, set()).add(key)
    return frozenset(name for name, keys in found.items() if keys != own.get(name))


def _fields(key: str) -> tuple[str, str, int, int]:
    """Tensor, role, first element and number of elements."""
    fields = key.split("\n")
    if len(fields) != 4:
        raise InvalidArgument(f"the state has an entry '{key}', which no state_dict() of HiPress writes")
    name, role, first, count = fields[0], fields[1], int(fields[2]), int(fields[3])
    # Of a matrix these are rows and columns.
    return (name, role, 0, first * count) if role == "factors" else (name, role, first, count)


def _unsent(states: Mapping[str, Floats], counts: Mapping[str, int]) -> dict[tuple[str, str], Floats]:
    """These residuals, for all elements of their tensors, by tensor and role."""
    found: dict[tuple[str, str], Floats] = {}
    for key, values in states.items():
        name, role, first, _ = _fields(key)
        into = found.setdefault((name, _role_of_unsent(role)), np.zeros(counts[name], np.float32))
        into[first : first + len(values)] += np.asarray(values, np.float32)
    return found


def _role_of_unsent(role: str) -> str:
    if role in ROLES:
        return role
    return OF_AVERAGE if role == "aggregator" else OF_GRADIENT


def _check_shape(name: str, first: int, count: int, values: Floats, counts: Mapping[str, int]) -> None:
    if name not in counts:
        raise InvalidArgument(f"the state is of a parameter '{name}', which the model does not have")
    if first + count > counts[name]:
        raise InvalidArgument(
            f"the state of '{name}' covers {first + count} elements; the parameter has {counts[name]}"
        )
    if len(values) != count:
        raise InvalidArgument(f"the state '{RESIDUAL}' of '{name}' does not have {count} elements")
