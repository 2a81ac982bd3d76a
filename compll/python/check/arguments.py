# SPDX-License-Identifier: Apache-2.0
"""The arguments of operators: vectors, functions of their elements, counts and sizes of blocks."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check import lambdas as check_lambdas
from hipress.compll.check import length_keys
from hipress.compll.check.conversions import arithmetic_type, convert
from hipress.compll.check.scope import LambdaRef, Scope, VectorRef
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.expressions import widens
from hipress.compll.ir.functions import FUNCTIONS


def function_for(argument: s.Expression, scope: Scope, elements: tuple[ir.Scalar, ...]) -> LambdaRef:
    """The function that a call gives to an operator. It must take elements of these types."""
    unit = scope.unit
    if isinstance(argument, s.Name) and scope.find(argument.name) is None and argument.name in FUNCTIONS:
        return _scalar_function(argument, scope, elements)
    called = check_expressions.lower(argument, scope)
    if not isinstance(called, LambdaRef):
        raise unit.error(argument.span, "a function is needed here", "write [&](float x) -> float { return ...; }")
    types = check_lambdas.parameter_types(called)
    if len(types) != len(elements):
        raise unit.error(
            argument.span, f"'{called.name}' takes {len(types)} values, but the operator gives it {len(elements)}"
        )
    for parameter, type_, element in zip(called.parameters, types, elements, strict=True):
        if not widens(element, type_):
            raise unit.error(
                argument.span,
                f"'{called.name}' takes {type_} as '{parameter.name}', the elements are {element}",
                "let the function take that type, and convert inside it",
            )
    return called


def _scalar_function(argument: s.Name, scope: Scope, elements: tuple[ir.Scalar, ...]) -> LambdaRef:
    """A scalar function that is given by its name: `abs` stands for [&](T a) -> T { return abs(a); }."""
    function, span = FUNCTIONS[argument.name], argument.span
    if function.arity != len(elements) or function.result:
        raise scope.unit.error(span, f"'{argument.name}' does not fit here", "write a lambda around it")
    wide = ir.FLOAT if function.domain == "float" else ir.INT
    for element in elements:
        wide = arithmetic_type(wide, element)
    type_ = s.TypeName(span, wide.kind, None, False)
    parameters = tuple(s.Parameter(span, type_, f"{argument.name}_{i}", False) for i in range(function.arity))
    call = s.Call(span, argument.name, tuple(s.Name(span, p.name) for p in parameters))
    return LambdaRef(argument.name, parameters, (type_,), s.Block(span, (s.Return(span, (call,)),)), scope)


def single(called: LambdaRef, argument: s.Expression, scope: Scope) -> ir.Lambda:
    function = check_lambdas.as_lambda(called, argument.span)
    if len(function.results) != 1:
        raise scope.unit.error(argument.span, "only map takes a function with several results")
    return function


def bind(scope: Scope, base: str, element: ir.Scalar, value: ir.Operator) -> VectorRef:
    """The vector that the operator makes. `base` is its name in the IR until the program gives it one."""
    length, unit = value.length(), scope.unit
    match length:
        case ir.Like(vector=vector):
            key = unit.lengths[vector]
        case ir.AtMost():
            base = unit.fresh(base)
            key = f"filter:{base}"
        case ir.First(vector=vector, count=count):
            key = f"take({unit.lengths[vector]}, {unit.key(count)})"
        case ir.Blocks(vector=vector, block=block):
            key = length_keys.blocks(unit.lengths[vector], unit.key(block))
        case ir.Exactly(count=count):
            key = unit.key(count)
    type_ = ir.Vector(element, key)
    return VectorRef(scope.let(base, type_, value, value.span), type_)


def indices(argument: s.Expression, scope: Scope) -> VectorRef:
    """A vector of positions."""
    reference = whole(argument, scope)
    if reference.type.element != ir.INT:
        raise scope.unit.error(argument.span, f"indices are int32, these are {reference.type.element}")
    return reference


def count(argument: s.Expression, scope: Scope) -> ir.Expr:
    """A number of elements."""
    value = convert(scope.unit, check_expressions.scalar(argument, scope), ir.INT, argument.span)
    if isinstance(value, ir.Const) and value.value < 0:
        raise scope.unit.error(argument.span, f"a vector cannot have {value.value} elements")
    return value


def block_size(argument: s.Expression, scope: Scope) -> ir.Expr:
    block = convert(scope.unit, check_expressions.scalar(argument, scope), ir.INT, argument.span)
    if isinstance(block, ir.Const) and block.value < 1:
        raise scope.unit.error(argument.span, f"a block cannot have {block.value} elements")
    if not isinstance(block, ir.Const | ir.ParamRef | ir.Cast) or (
        isinstance(block, ir.Cast) and not isinstance(block.operand, ir.ParamRef)
    ):
        raise scope.unit.error(argument.span, "a block's size is a number or a parameter")
    return block


def whole(argument: s.Expression, scope: Scope) -> VectorRef:
    reference = check_expressions.vector(argument, scope)
    if reference.spread is not None:
        raise scope.unit.error(argument.span, "spread can only be an argument of map")
    return reference
