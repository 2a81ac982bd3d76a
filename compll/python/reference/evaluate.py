# SPDX-License-Identifier: Apache-2.0
"""The meaning of scalar expressions, for one element or for arrays of them at once.

No expression fails: int32 wraps around, x / 0 is 0 and x % 0 is x in integers, shifts use the lower five bits of their
count, an index out of range reads 0, conversions saturate and turn NaN into 0. float and double are IEEE 754. Each
operation is rounded by itself: a target must not contract a·b + c.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.ir.expressions import FLOAT16, limits
from hipress.compll.ir.functions import FUNCTIONS
from hipress.compll.reference.philox import RandomKey, uniform, uniform_int

_DTYPES: dict[str, Any] = {
    "bool": np.bool_,
    "uint": np.uint8,
    "int": np.int32,
    "float": np.float32,
    "double": np.float64,
}


@dataclass
class Environment:
    """Values of names. `indices` are the elements that are being computed; random numbers depend on them."""

    params: Mapping[str, Any]
    vectors: dict[str, NDArray[Any]] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    random: RandomKey | None = None
    indices: Any = 0
    decoding: bool = False

    def size(self, vector: str) -> int:
        return len(self.vectors[vector])


def dtype(type_: ir.Scalar) -> Any:
    """The NumPy type in which the interpreter keeps values of the type."""
    if type_.bits > 8:
        return np.float16 if type_.kind == "float" else np.uint16
    return _DTYPES[type_.kind]


def bits(type_: ir.Scalar, environment: Environment) -> int:
    """The bits of an element in a message; of a trit, the bits of its value."""
    if type_.width is not None:
        return int(evaluate(type_.width, environment))
    return type_.bits or 32


@np.errstate(all="ignore")
def evaluate_static(expr: ir.Expr, params: Mapping[str, Any]) -> Any:
    """The value of an expression of constants and parameters."""
    return evaluate(expr, Environment(params))


def apply(function: ir.Lambda, arguments: tuple[Any, ...], environment: Environment, indices: Any) -> tuple[Any, ...]:
    """The results of the function for every element. Arguments are arrays of one length, or scalars."""
    scalars = dict(environment.scalars)
    for (name, type_), argument in zip(function.parameters, arguments, strict=True):
        scalars[name] = cast(argument, type_, environment)
    inner = Environment(environment.params, environment.vectors, scalars, environment.random, indices)
    for let in function.lets:
        assert isinstance(let.value, ir.Expr)
        scalars[let.name] = evaluate(let.value, inner)
    return tuple(evaluate(result, inner) for result in function.results)


def evaluate(expr: ir.Expr, env: Environment) -> Any:
    """The value, as a NumPy scalar or array of the expression's type. Callers ignore the warnings of NumPy."""
    match expr:  # the most frequent first
        case ir.Var():
            return env.scalars[expr.name]
        case ir.Const():
            return dtype(expr.type)(expr.value)
        case ir.Binary():
            return binary(expr.operator, evaluate(expr.left, env), evaluate(expr.right, env))
        case ir.Cast():
            return cast(evaluate(expr.operand, env), expr.type, env)
        case ir.Call():
            arguments = (evaluate(argument, env) for argument in expr.arguments)
            return FUNCTIONS[expr.function].meaning(*arguments)[()]
        case ir.Select():
            yes, no = evaluate(expr.yes, env), evaluate(expr.no, env)
            return np.where(evaluate(expr.condition, env), yes, no)[()]
        case ir.Index():
            return _element(env.vectors[expr.vector], evaluate(expr.index, env))
        case ir.Bitcast():
            return np.asarray(evaluate(expr.operand, env)).view(dtype(expr.type))[()]
        case ir.Unary():
            operand = evaluate(expr.operand, env)
            if expr.operator == "!":
                return np.logical_not(operand)
            return np.invert(operand) if expr.operator == "~" else np.negative(operand)
        case ir.ParamRef():
            return dtype(expr.type)(env.params[expr.name])
        case ir.Size():
            return np.int32(env.size(expr.vector))
        case ir.StepNumber():
            if env.random is None:
                raise KeyError("step")
            return np.int32(env.random.step & 0x7FFFFFFF)
        case ir.Random():
            if env.random is None:
                raise KeyError("random")
            key = env.random.of_all_ranks() if expr.shared else env.random
            words = key.words(env.indices, expr.site, expr.bits)
            draw = uniform if expr.type == ir.FLOAT else uniform_int
            drawn = draw(words, evaluate(expr.low, env), evaluate(expr.high, env))
            return drawn if np.ndim(env.indices) else drawn[0]


def _element(vector: NDArray[Any], index: Any) -> Any:
    inside = (index >= 0) & (index < len(vector))
    if len(vector) == 0:
        return np.zeros(np.shape(index), vector.dtype)[()]
    return np.where(inside, vector[np.where(inside, index, 0)], vector.dtype.type(0))[()]


def binary(operator: str, left: Any, right: Any) -> Any:
    """The result for operands of one type."""
    match operator:
        case "<":
            return left < right
        case ">":
            return left > right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "&&":
            return np.logical_and(left, right)
        case "||":
            return np.logical_or(left, right)
    kind = np.asarray(left).dtype
    if kind != np.int32:
        return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[operator](left, right)
    # Computed in 64 bits and cut to 32, so that it wraps around.
    a, b = np.asarray(left, np.int64), np.asarray(right, np.int64)
    return _integer(operator, a, b).astype(np.int32)[()]


def _integer(operator: str, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    match operator:
        case "+":
            return np.asarray(a + b)
        case "-":
            return np.asarray(a - b)
        case "*":
            return np.asarray(a * b)
        case "&":
            return np.asarray(a & b)
        case "|":
            return np.asarray(a | b)
        case "^":
            return np.asarray(a ^ b)
        case "<<":
            return np.asarray(a << (b & 31))
        case ">>":
            return np.asarray(a >> (b & 31))
    safe = np.where(b == 0, 1, b)
    quotient = np.where(b == 0, 0, np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)))
    return quotient if operator == "/" else np.asarray(a - quotient * b)


def cast(value: Any, to: ir.Scalar, environment: Environment) -> Any:
    """`value` as `to`; saturating."""
    value = np.asarray(value)
    if value.dtype == dtype(to) and to.kind != "uint" and not to.bits:
        return value[()]
    if to.kind == "bool":
        return (value != 0)[()]
    if to == FLOAT16:
        return value.astype(np.float32).astype(np.float16)[()]
    if to.kind in ("float", "double"):
        return value.astype(dtype(to))[()]
    low, high = limits(to)
    if to.width is not None:
        high = (1 << bits(to, environment)) - 1
    if value.dtype.kind == "f":
        wide = np.where(np.isnan(value), 0.0, np.trunc(value.astype(np.float64)))
        return np.clip(wide, low, high).astype(dtype(to))[()]
    return np.clip(value.astype(np.int64), low, high).astype(dtype(to))[()]
