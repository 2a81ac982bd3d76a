# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions and vector elements as C++, the same for processors and GPUs.

A scope knows how text at its place refers to names. core/ops/scalar.h defines the operations.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod

import numpy as np

from hipress.compll import ir
from hipress.compll.emit.elements import ELEMENTS
from hipress.compll.ir.expressions import FLOAT16, TRIT, widens
from hipress.compll.passes.vectors import Computed, Mapped, Payload, Source, Stored, Vectors

_INT = {"+": "addInt", "-": "subtractInt", "*": "multiplyInt", "/": "divideInt", "%": "remainderInt",
        "<<": "shiftLeft", ">>": "shiftRight"}  # fmt: skip
_CALLS = {
    "abs": "absolute",
    "sign": "signOf",
    "min": "lesser",
    "max": "greater",
    "sqrt": "squareRoot",
    "floor": "floorOf",
    "ceil": "ceilOf",
    "round": "roundOf",
    "exp": "expOf",
    "log": "logOf",
    "cospi": "cosineOfPi",
    "exponent": "exponentOf",
    "pow2": "powerOfTwo",
    "blocks": "blocksOf",
    "isfinite": "isFinite",
}
_TYPES = {"bool": "bool", "uint": "int32_t", "int": "int32_t", "float": "float", "double": "double"}


def c_type(type_: ir.Scalar) -> str:
    """The C++ type of a value."""
    return _TYPES[type_.kind]


def stored_type(type_: ir.Scalar) -> str:
    """The C++ type of a vector's element in memory. A bool takes 32 bits there, as a lane of a vector register."""
    return "int32_t" if type_.kind == "bool" else _TYPES[type_.kind]


def message_type(type_: ir.Scalar) -> str:
    """The C++ type of a vector's element before it is packed, or of a scalar, in a message."""
    if type_.bits == 16 or type_.wide:
        return "uint16_t"
    return "uint8_t" if type_.packed else c_type(type_)


def constant(value: bool | int | float, type_: ir.Scalar) -> str:
    if type_.kind == "bool":
        return "true" if value else "false"
    if type_.kind in ("int", "uint"):
        return "(-2147483647 - 1)" if value == -(1 << 31) else f"({int(value)})" if value < 0 else str(int(value))
    with np.errstate(over="ignore"):
        rounded = np.float16 if type_ == FLOAT16 else np.float32
        number = float(rounded(value)) if type_.kind == "float" else float(value)
    suffix = "f" if type_.kind == "float" else ""
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}static_cast<{_TYPES[type_.kind]}>(INFINITY))"
    text = number.hex() + suffix
    return f"({text})" if text.startswith("-") else text


class Names:
    """C++ names for the names of the IR, which may have dots in them. Each gets its own."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self._given:
            plain = re.sub(r"\W", "_", name)
            while plain in self._given.values():
                plain += "_"
            self._given[name] = plain
        return self._given[name]


class Scope(ABC):
    """Writes statements to `lines` and gives the text of values. `flag` is the template argument of functions."""

    def __init__(self, vectors: Vectors, names: Names) -> None:
        self.vectors, self.names = vectors, names
        self.lines: list[str] = []
        self._elements: dict[str, str] = {}
        self._mapped: dict[int, tuple[str, ...]] = {}
        self._local: dict[str, str] = {}
        self._whole: set[str] = set()  # local names of floats that are whole numbers
        self._unrounded: dict[str, str] = {}  # local names of results of round(), with the variables that it rounds
        self._fresh = 0

    # References to names

    @abstractmethod
    def scalar(self, name: str) -> str: ...
    @abstractmethod
    def param(self, name: str) -> str: ...
    @abstractmethod
    def count(self, vector: str) -> str:
        """Number of elements, as size_t."""

    @abstractmethod
    def at(self, vector: str, index: str) -> str:
        """The element at any place, 0 out of range."""

    def gathered(self, vector: str, indices: str) -> str:
        """The vector's element at the index at hand, which a step before has checked."""
        return self.at(vector, self.element(indices))

    @abstractmethod
    def position(self) -> str:
        """The number of the element that is being computed, as int32_t."""

    @abstractmethod
    def word(self, random: ir.Random) -> str:
        """The element's random word."""

    def step(self) -> str:
        """The number of the step, as int32_t. No function of elements has it."""
        raise AssertionError

    def source(self, name: str) -> str:
        raise AssertionError(name)

    def payload(self, name: str) -> str:
        raise AssertionError(name)

    def stored(self, name: str) -> str:
        raise AssertionError(name)

    def spread(self, access: ir.Spread) -> str:
        raise AssertionError(access)

    # Elements

    def variable(self, type_: str, text: str) -> str:
        self._fresh += 1
        name = f"x{self._fresh}"
        self.lines.append(f"[[maybe_unused]] const {type_} {name} = {text};")
        return name

    def element(self, vector: str) -> str:
        """A variable with the vector's element at position()."""
        if vector not in self._elements:
            self._elements[vector] = self._element(vector)
        return self._elements[vector]

    def _element(self, vector: str) -> str:
        type_ = c_type(self.vectors.element(vector))
        definition = self.vectors.definitions[vector]
        match definition:
            case Source(name=name):
                return self.variable(type_, self.source(name))
            case Payload():
                return self.variable(type_, self.payload(vector))
            case Mapped(op, result):
                if id(op) not in self._mapped:
                    arguments = [self.access(a) for a in op.inputs]
                    kinds = [self.vectors.element(a.vector) for a in op.inputs]
                    self._mapped[id(op)] = self.call(op.function, arguments, kinds)
                return self._mapped[id(op)][result]
            case Stored():
                return self.variable(type_, self.stored(vector))
            case Computed(op):
                text = (
                    self.at(vector, self.position()) if isinstance(op, ir.Constants) else ELEMENTS[type(op)](self, op)
                )
                return text if text == self.position() else self.variable(type_, text)

    def access(self, access: ir.Vec | ir.Spread) -> str:
        return self.spread(access) if isinstance(access, ir.Spread) else self.element(access.vector)

    def call(self, function: ir.Lambda, arguments: list[str], kinds: list[ir.Scalar]) -> tuple[str, ...]:
        """Variables with the lambda's results."""
        for (name, type_), argument, kind in zip(function.parameters, arguments, kinds, strict=True):
            converted = self.converted(argument, kind, type_)
            self._local[name] = argument if converted == argument else self.variable(c_type(type_), converted)
            self._whole.discard(name)
            self._unrounded.pop(name, None)
        for let in function.lets:
            assert isinstance(let.value, ir.Expr)
            unrounded, value = self._rounded(let.value)
            self._local[let.name] = self.variable(c_type(let.value.type), value)
            if unrounded:
                self._unrounded[let.name] = unrounded
            else:
                self._unrounded.pop(let.name, None)
            if self.whole(let.value):
                self._whole.add(let.name)
            else:
                self._whole.discard(let.name)
        return tuple(self.variable(c_type(result.type), self.expr(result)) for result in function.results)

    def _rounded(self, expr: ir.Expr) -> tuple[str | None, str]:
        """If the float is a result of round(): the variable that round() takes. And the float's text."""
        match expr:
            case ir.Call(function="round", arguments=[operand]) if expr.type == ir.FLOAT:
                unrounded = self.variable("float", self.expr(operand))
                return unrounded, f"ops::roundOf({unrounded})"
        return None, self.expr(expr)

    # Expressions

    def expr(self, expr: ir.Expr) -> str:
        match expr:
            case ir.Const():
                return constant(expr.value, expr.type)
            case ir.Var():
                return self._local[expr.name] if expr.name in self._local else self.scalar(expr.name)
            case ir.ParamRef():
                return self.param(expr.name)
            case ir.Size():
                return f"static_cast<int32_t>({self.count(expr.vector)})"
            case ir.Index():
                return self.index(expr)
            case ir.Unary():
                return self.unary(expr)
            case ir.Binary():
                return self.binary(expr)
            case ir.Select():
                return f"({self.expr(expr.condition)} ? {self.expr(expr.yes)} : {self.expr(expr.no)})"
            case ir.Cast():
                if (
                    expr.operand.type == ir.FLOAT
                    and expr.type.kind == "int"
                    and expr.type.bits
                    and self.whole(expr.operand)
                ):
                    return f"ops::nearestSigned({self.unrounded(expr.operand)}, {self.bits(expr.type)})"
                return self.converted(self.expr(expr.operand), expr.operand.type, expr.type)
            case ir.Bitcast():
                return f"ops::{'bitsOf' if expr.type == ir.INT else 'floatOf'}({self.expr(expr.operand)})"
            case ir.Call():
                return f"ops::{_CALLS[expr.function]}({', '.join(self.expr(a) for a in expr.arguments)})"
            case ir.StepNumber():
                return self.step()
            case ir.Random():
                function = "uniform" if expr.type == ir.FLOAT else "uniformInt"
                return f"ops::{function}({self.word(expr)}, {self.expr(expr.low)}, {self.expr(expr.high)})"

    def unrounded(self, expr: ir.Expr) -> str:
        """A float whose nearest whole number is this whole number. A conversion that rounds needs no round() before."""
        match expr:
            case ir.Var(name=name) if name in self._unrounded:
                return self._unrounded[name]
            case ir.Call(function="round", arguments=[operand]):
                return self.expr(operand)
        return self.expr(expr)

    def whole(self, expr: ir.Expr) -> bool:
        """Whether the float is certainly a whole number, an infinity or NaN."""
        match expr:
            case ir.Const(value=value):
                return float(value).is_integer()
            case ir.Var(name=name):
                return name in self._whole
            case ir.Unary(operand=operand):
                return self.whole(operand)
            case ir.Select(yes=yes, no=no):
                return self.whole(yes) and self.whole(no)
            case ir.Call(function=function, arguments=arguments):
                same = function in ("min", "max", "abs") and all(map(self.whole, arguments))
                return same or function in ("round", "floor", "ceil", "sign")
        return False

    def index(self, expr: ir.Index) -> str:
        return self.at(expr.vector, self.expr(expr.index))

    def unary(self, expr: ir.Unary) -> str:
        operand = self.expr(expr.operand)
        if expr.operator == "-" and expr.type.kind == "int":
            return f"ops::negateInt({operand})"
        return f"({expr.operator}{operand})"

    def binary(self, expr: ir.Binary) -> str:
        left, right = self.expr(expr.left), self.expr(expr.right)
        if expr.operator in ("&&", "||"):  # both sides are evaluated: no expression fails
            return f"static_cast<bool>({left} {expr.operator[0]} {right})"
        if expr.type.kind == "int" and expr.operator in _INT:
            return f"ops::{_INT[expr.operator]}({left}, {right})"
        return f"({left} {expr.operator} {right})"

    def converted(self, text: str, source: ir.Scalar, to: ir.Scalar) -> str:
        """The value converted to another type; it saturates."""
        if source == to:
            return text
        if to.kind == "bool":
            return f"({text} != 0)"
        if to == FLOAT16:
            return f"ops::toFloat16(static_cast<float>({text}))"
        if source == FLOAT16 and to == ir.FLOAT:
            return text
        if to.kind in ("float", "double"):
            return f"static_cast<{to.kind}>({text})"
        if source.kind == "bool":
            return f"static_cast<int32_t>({text})"
        if widens(source, to):
            return text
        if to == ir.INT:
            return f"ops::toInt({text})"
        if to == TRIT:
            return f"ops::lesser(ops::toUint({text}, 2u), 2)"
        return f"ops::{'toUint' if to.kind == 'uint' else 'toSigned'}({text}, {self.bits(to)})"

    def packable(self, text: str, type_: ir.Scalar) -> str:
        """An element as a message holds it, before it is packed, from its value."""
        if type_ == FLOAT16:
            return f"ops::float16Bits({text})"
        return f"({text} & {(1 << type_.bits) - 1})" if type_.kind == "int" and type_.bits else text

    def unpackable(self, text: str, type_: ir.Scalar) -> str:
        """The inverse of packable()."""
        if type_ == FLOAT16:
            return f"ops::float16Of({text})"
        return f"ops::signExtended({text}, {self.bits(type_)})" if type_.kind == "int" and type_.bits else text

    def bits(self, type_: ir.Scalar) -> str:
        """Bits of an element in a message, as unsigned, or what stands for them (core/ops/block.h)."""
        if type_ == TRIT:
            return "ops::kTrits"
        if type_.width is not None:
            return f"static_cast<unsigned>({self.expr(type_.width)})"
        return f"{type_.bits or 32}u"
