# SPDX-License-Identifier: Apache-2.0
"""One pass over the elements of a tile: what the loop computes for an element, and what follows the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol

from hipress.compll import ir
from hipress.compll.emit.function import FrameScope, Function
from hipress.compll.emit.scope import stored_type
from hipress.compll.emit.tile import Tile
from hipress.compll.passes import plan


class TilePass(ABC):
    """Collects text while sinks are added to it."""

    tile: Tile

    def __init__(self, function: Function) -> None:
        self.function, self.vectors, self.names = function, function.vectors, function.names
        self.after: list[str] = []  # statements after the loop over the tile's elements
        self.bad = False  # whether the loop counts values that are not finite

    def add(self, sinks: Iterable[plan.Sink]) -> None:
        """Adds the sinks, and the check of the gradient if no loop has made it yet."""
        for sink in sinks:
            self.function.target.sinks[type(sink)].element(self, sink)
        checks = self.tile.length == "gradient.size" and not self.function.decoding
        if checks and ir.GRADIENT in self.tile.sources and not self.function.gradient_checked:
            self.function.gradient_checked = True
            self.check(self.tile.element(ir.GRADIENT))

    def check(self, value: str, condition: str = "", *, exact: bool = False) -> None:
        """Finds out whether a value is not finite; with `exact`, counts these values."""
        self.tile.lines.append(f"{condition}bad += ops::isFinite({value}) ? 0 : 1;")
        self.bad = True

    def check_state(self, state: str, value: str) -> None:
        """Finds out whether a value of a new state is not finite.

        A caller that keeps no states needs none of what only the state needs: there the gradient is checked.
        """
        exact = state in self.function.replaced
        if state == self.function.guard:
            self.check(f"kStates ? {value} : {self.tile.element(ir.GRADIENT)}", exact=exact)
        else:
            self.check(value, "if (kStates) ", exact=exact)

    @abstractmethod
    def storable(self, vector: str) -> str:
        """The vector's element as memory keeps it."""

    @abstractmethod
    def text(self) -> str:
        """The body of the loop over tiles."""

    def replaces(self, sink: plan.ScatterTo, place: str, index: str, value: str) -> None:
        """One element of a new state is replaced at `place`.

        The check of the base counted the element that is replaced; it does not count any more.
        """
        self.tile.lines += [
            "if (kStates) {",
            f"  bad -= ops::isFinite({place}) ? 0 : 1;",
            f"  bad += ops::isFinite({value}) ? 0 : 1;",
            f"  {place} = {value};",
            "}",
        ]
        self.bad = True


class Keyed(Protocol):
    """An operator that orders the elements of `vector` by what `key` gives for them."""

    @property
    def vector(self) -> str: ...
    @property
    def key(self) -> ir.Lambda: ...


def key_type(op: ir.Sort) -> str:
    """The type of a sort's keys: unsigned integers in the order of the values."""
    return "uint64_t" if op.key.results[0].type.kind == "double" else "uint32_t"


def key_of(scope: FrameScope, op: Keyed) -> str:
    """The text of an element's sort key."""
    value = scope.element(op.vector)
    (key,) = scope.call(op.key, [value], [scope.vectors.element(op.vector)])
    cast = "static_cast<int32_t>" if op.key.results[0].type.kind == "bool" else ""
    return f"{scope.function.target.order_key}({cast}({key}))"


def scattered_value(work: TilePass, sink: plan.ScatterTo) -> tuple[str, str]:
    """The index and the value that a scatter puts there.

    A step before the loop has checked the indices: each one is in range and occurs once.
    """
    tile = work.tile
    index = tile.element(sink.indices)
    value = tile.element(sink.values.vector) if isinstance(sink.values, ir.Vec) else tile.expr(sink.values)
    return index, value


def member_of(work: TilePass, vector: str, name: str) -> str:
    """The frame's member that points to the vector's elements in memory."""
    type_ = stored_type(work.vectors.element(vector))
    return work.function.member(f"v_{work.names(name)}", f"{type_}*", " = nullptr")
