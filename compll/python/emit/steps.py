# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan as statements: the parts that are the same for all targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hipress.compll import ir
from hipress.compll.emit.function import FrameScope, Function
from hipress.compll.emit.scope import message_type, stored_type
from hipress.compll.passes import plan


class Driver(FrameScope):
    """Between kernels: `f` is the frame itself."""

    frame = "f."


class Steps(ABC):
    """Emits the steps of a plan. `lines` are the statements so far; `scope` gives the text of values in them."""

    scope: FrameScope

    def __init__(self, function: Function) -> None:
        self.function, self.vectors, self.names = function, function.vectors, function.names
        self.lines: list[str] = []

    def emit(self, steps: Sequence[plan.Step], items: tuple[ir.Vec | ir.Expr, ...] = ()) -> list[str]:
        """Emits the steps; `items` is what the message consists of. Returns the statements."""
        self.items = items
        for step in steps:
            self.step(step)
        return self.lines

    def step(self, step: plan.Step) -> None:
        match step:
            case plan.Loop():
                self.loop(step)
            case plan.Scalar():
                self.lines.append(f"f.{self.function.scalar(step.name, step.type)} = {self.text(step.value)};")
            case plan.Count():
                self.count(step)
            case plan.Offset():
                member = self.function.member(f"o_{step.item}", "size_t", " = 0")
                self.lines.append(f"f.{member} = {self.size(self.items[: step.item])};")
            case plan.Order():
                self.order(step)
            case plan.Starts():
                self.starts(step)
            case plan.CheckIndices():
                self.check(step)
            case plan.Read():
                self.read(step)
            case plan.Demand():
                self.demand(step, f"the requirement in line {step.line} does not hold")
            case plan.Branch():
                self.branch(step)
            case plan.Finish():
                self.finish(step)

    # Steps that each target emits in its own way

    @abstractmethod
    def loop(self, loop: plan.Loop) -> None: ...
    @abstractmethod
    def order(self, step: plan.Order) -> None: ...
    @abstractmethod
    def starts(self, step: plan.Starts) -> None: ...
    @abstractmethod
    def check(self, step: plan.CheckIndices) -> None: ...
    @abstractmethod
    def demand(self, step: plan.Demand, refusal: str) -> None: ...
    @abstractmethod
    def branch(self, step: plan.Branch) -> None: ...

    @abstractmethod
    def reserve_vector(self, vector: str, count: str) -> str:
        """Reserves memory for `count` elements of a vector; the frame's member that points to it."""

    @abstractmethod
    def in_memory(self, vector: str) -> str:
        """A pointer to the vector's elements, unpacked if the message has them packed."""

    # Values and counts

    def text(self, expr: ir.Expr) -> str:
        """The text of a value; statements that it needs first are added to `lines`."""
        value = self.scope.expr(expr)
        self.lines += self.scope.lines
        self.scope.lines = []
        return value

    def counter(self, vector: str) -> str:
        """The frame's member with the number of elements of a vector that is not as long as the gradient."""
        return self.function.member(f"n_{self.names(vector)}", "size_t", " = 0")

    def least(self, count: str, of: str) -> str:
        """The smaller of two counts."""
        return f"{self.function.target.least}({count}, {of})"

    def count(self, step: plan.Count) -> None:
        member, value = self.counter(step.vector), self.text(step.value)
        match step.kind:
            case "blocks":
                of = self.scope.count(step.of)
                self.lines.append(f"f.{member} = ops::blockCount({of}, ops::atLeastOne({value}));")
                self.reserve_vector(step.vector, f"f.{member}")
            case "take":
                self.lines.append(f"f.{member} = {self.least(f'ops::asCount({value})', self.scope.count(step.of))};")
            case "exact":
                self.lines.append(f"f.{member} = ops::asCount({value});")

    # The message

    def size(self, items: Sequence[ir.Vec | ir.Expr]) -> str:
        """The bytes that the items take."""
        parts = []
        for item in items:
            if isinstance(item, ir.Vec):
                bits = self.scope.bits(self.vectors.element(item.vector))
                parts.append(f"ops::packedBytes({self.scope.count(item.vector)}, {bits})")
            else:
                parts.append(str(item.type.message_bytes))
        return " + ".join(parts) or "0"

    def finish(self, step: plan.Finish) -> None:
        for number, item in enumerate(step.items):
            if isinstance(item, ir.Vec):
                continue
            type_, at = message_type(item.type), self.size(step.items[:number])
            value = self.scope.packable(self.text(item), item.type)
            self.lines.append(f"ops::putScalar<{type_}>(f.message + {at}, static_cast<{type_}>({value}));")
        self.lines.append(f"f.bytes = {self.size(step.items)};")

    def read(self, step: plan.Read) -> None:
        """The fields of a message, in order."""
        self.begin_reading(step.fields)
        for part in step.fields:
            element = part.type.element if isinstance(part.type, ir.Vector) else part.type
            bits = self.scope.bits(element)
            if not isinstance(part.type, ir.Vector):
                numbers = "Uint16" if element.bits == 16 else "Int" if element.kind == "int" else "Float"
                kind = "Wide" if element.wide else "Packed" if element.packed else numbers
                value = self.reader_call(f"scalar{kind}", part, *([bits] if element.packed else []))
                value = self.scope.unpackable(value, element)
                self.lines.append(f"f.{self.function.scalar(part.name, element)} = {value};")
                continue
            count = self.counter(part.name)
            if part.length is None:
                self.lines.append(f"f.{count} = {self.reader_call('rest', part, bits)};")
            else:
                self.lines.append(f"f.{count} = {self.reader_call('count', part, self.text(part.length))};")
            if element.packed:
                member = self.function.member(f"v_{self.names(part.name)}", "const uint8_t*", " = nullptr")
                self.lines.append(f"f.{member} = {self.reader_call('packed', part, f'f.{count}', bits)};")
            else:
                self.read_numbers(part, message_type(element), count)
        self.end_reading()

    @abstractmethod
    def begin_reading(self, fields: Sequence[ir.Field]) -> None:
        """Before the first field is read."""

    @abstractmethod
    def end_reading(self) -> None:
        """After the last field: refuses bytes that are left over."""

    @abstractmethod
    def reader_call(self, method: str, part: ir.Field, *arguments: str) -> str:
        """A call of the PayloadReader, which refuses the message where the field does not fit."""

    @abstractmethod
    def read_numbers(self, part: ir.Field, type_: str, counter: str) -> None:
        """A vector of numbers of two or four bytes; the frame's member `counter` has its length."""

    # Branches

    def join(self, join: ir.Join, source: str) -> None:
        """What a branch has computed gets the name that it has after the branch."""
        if not isinstance(join.type, ir.Vector):
            member = self.function.scalar(join.name, join.type)
            self.lines.append(f"f.{member} = {self.scope.scalar(source)};")
            return
        type_ = stored_type(join.type.element)
        member = self.function.member(f"v_{self.names(join.name)}", f"{type_}*", " = nullptr")
        count = self.counter(join.name)
        pointer = self.in_memory(source)  # may emit a kernel, so it comes before the statement
        self.lines.append(f"f.{member} = {pointer};")
        self.lines.append(f"f.{count} = {self.scope.count(source)};")


def combine_functor(function: Function, op: ir.Reduce) -> str:
    """The type of a reduction's functor: one that the operators have vector code for, or one made for the program."""
    (a, _), (b, _) = op.function.parameters
    result = op.function.results[0]
    match result:
        case ir.Binary(operator="+", left=ir.Var(name=left), right=ir.Var(name=right)) if (left, right) == (a, b):
            return "ops::Sum"
        case ir.Call(function="min", arguments=(ir.Var(name=left), ir.Var(name=right))) if (left, right) == (a, b):
            return "ops::Least"
        case ir.Call(function="max", arguments=(ir.Var(name=left), ir.Var(name=right))) if (left, right) == (a, b):
            return "ops::Greatest"
    return function.combine(op)
