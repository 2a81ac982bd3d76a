# SPDX-License-Identifier: Apache-2.0
"""How the body of a kernel names values: the parts that are the same for all targets."""

from __future__ import annotations

from abc import abstractmethod

from hipress.compll import ir
from hipress.compll.emit.function import FrameScope, Function
from hipress.compll.emit.scope import message_type, stored_type


class KernelScope(FrameScope):
    """Inside a kernel: scalars and parameters are copied to local variables first, so that they stay in registers."""

    def __init__(self, function: Function, prologue: dict[str, str]) -> None:
        super().__init__(function)
        self.prologue = prologue

    def scalar(self, name: str) -> str:
        return self.copied(super().scalar(name), f"s_{self.names(name)}")

    def param(self, name: str) -> str:
        return self.copied(super().param(name), f"p_{name}")

    def copied(self, text: str, name: str) -> str:
        """The name of a local copy of the value."""
        self.prologue[name] = f"[[maybe_unused]] const auto {name} = {text};"
        return name


class Tile(KernelScope):
    """The element at position() of a loop over tiles. A target says how its kernels read memory."""

    def __init__(self, function: Function, prologue: dict[str, str], length: str) -> None:
        super().__init__(function, prologue)
        self.length = length
        self.before: dict[str, str] = {}  # declarations before the loop over the tile's elements
        self.sources: set[str] = set()  # the gradient and the states that the loop reads
        self.switches: set[str] = set()  # parameters that choose between expressions
        self._chosen: list[str] = []  # the choices under which the expression at hand is computed

    @abstractmethod
    def loaded(self, member: str, type_: str, *, states_only: bool = False) -> str:
        """The element of an array that a member of the frame points to."""

    @abstractmethod
    def unpacked(self, name: str) -> str:
        """The element of a packed field of the message."""

    def loaded_state(self, name: str) -> str:
        """The value of a state's element that the loop reads."""
        return self.old_state(name, self.loaded(f"before_{self.names(name)}", "float", states_only=True))

    def expr(self, expr: ir.Expr) -> str:
        match expr:
            case ir.Select(condition=ir.ParamRef(name=name)):
                self.switches.add(name)
                condition = self.expr(expr.condition)
                sides = []
                for chosen, side in ((condition, expr.yes), (f"!{condition}", expr.no)):
                    self._chosen.append(chosen)
                    sides.append(self.expr(side))
                    self._chosen.pop()
                return f"({condition} ? {sides[0]} : {sides[1]})"
        return super().expr(expr)

    def where_chosen(self, statement: str) -> str:
        """The statement, for tiles for which the expression at hand is computed."""
        return f"if ({' && '.join(self._chosen)}) {statement}" if self._chosen else statement

    def index(self, expr: ir.Index) -> str:
        inner = self.expr(expr.index)
        if inner == self.position() and self.vectors.length(expr.vector) == self.length:
            return self.element(expr.vector)
        return self.at(expr.vector, self.place(expr, inner))

    def place(self, expr: ir.Index, text: str) -> str:
        """The text of an index that is not the element at hand."""
        return text

    def source(self, name: str) -> str:
        self.sources.add(name)
        if name != ir.GRADIENT:
            return self.loaded_state(name)
        if self.function.decoding:
            return "0.0f"
        self.prologue["scale"] = "const float scale = f->scale;"
        return f"{self.loaded(name, 'float')} * scale"

    def payload(self, name: str) -> str:
        type_ = self.vectors.element(name)
        if type_.packed:
            return self.unpackable(self.unpacked(name), type_)
        return self.unpackable(self.loaded(f"v_{self.names(name)}", message_type(type_)), type_)

    def stored(self, name: str) -> str:
        if name in self.function.by_rank:
            return self.at(name, self.position())
        type_ = self.vectors.element(name)
        member = self.function.member(f"v_{self.names(name)}", f"{stored_type(type_)}*", " = nullptr")
        return self.loaded(member, stored_type(type_)) + (" != 0" if type_.kind == "bool" else "")
