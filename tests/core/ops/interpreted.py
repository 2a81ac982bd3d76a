# SPDX-License-Identifier: Apache-2.0
"""Single expressions and reductions in the interpreter; the operator library must equal them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.ir.source import Span
from hipress.compll.reference import reductions as operators_reduce
from hipress.compll.reference.evaluate import Environment, evaluate

NOWHERE = Span(0, 0, 0, 0)
TYPES = {"int": ir.INT, "float": ir.FLOAT, "double": ir.DOUBLE, "bool": ir.BOOL}
DTYPES: dict[str, Any] = {"int": np.int32, "float": np.float32, "double": np.float64}


def _var(name: str, kind: str) -> ir.Expr:
    return ir.Var(span=NOWHERE, type=TYPES[kind], name=name)


@np.errstate(all="ignore")
def _value(expr: ir.Expr, **scalars: Any) -> NDArray[Any]:
    return np.asarray(evaluate(expr, Environment({}, scalars=scalars)))


def binary(operator: str, kind: str, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    left, right = _var("a", kind), _var("b", kind)
    return _value(ir.Binary(span=NOWHERE, type=TYPES[kind], operator=operator, left=left, right=right), a=a, b=b)


def negate(a: NDArray[Any]) -> NDArray[Any]:
    return _value(ir.Unary(span=NOWHERE, type=ir.INT, operator="-", operand=_var("a", "int")), a=a)


def call(function: str, kind: str, *arguments: NDArray[Any]) -> NDArray[Any]:
    names = "ab"[: len(arguments)]
    variables = tuple(_var(name, kind) for name in names)
    expr = ir.Call(span=NOWHERE, type=TYPES[kind], function=function, arguments=variables)
    return _value(expr, **dict(zip(names, arguments, strict=True)))


def cast(to: ir.Scalar, kind: str, a: NDArray[Any]) -> NDArray[Any]:
    return _value(ir.Cast(span=NOWHERE, type=to, operand=_var("a", kind)), a=a)


@np.errstate(all="ignore")
def reduction(combine: str, kind: str, init: float, values: NDArray[Any]) -> Any:
    """reduce(values, init, combine) with elements of type `kind`; combine is "sum", "least", "greatest" or "half" (a ·
    0.5 + b)."""
    a, b = _var("a", kind), _var("b", kind)
    result: ir.Expr
    if combine in ("least", "greatest"):
        function = {"least": "min", "greatest": "max"}[combine]
        result = ir.Call(span=NOWHERE, type=TYPES[kind], function=function, arguments=(a, b))
    else:
        if combine == "half":
            half = ir.Const(span=NOWHERE, type=TYPES[kind], value=0.5)
            a = ir.Binary(span=NOWHERE, type=TYPES[kind], operator="*", left=a, right=half)
        result = ir.Binary(span=NOWHERE, type=TYPES[kind], operator="+", left=a, right=b)
    parameters = (("a", TYPES[kind]), ("b", TYPES[kind]))
    op = ir.Reduce(
        span=NOWHERE,
        vector="v",
        init=ir.Const(span=NOWHERE, type=TYPES[kind], value=init),
        function=ir.Lambda(span=NOWHERE, parameters=parameters, lets=(), results=(result,)),
    )
    return operators_reduce.reduce(op, Environment({}, vectors={"v": values}))
