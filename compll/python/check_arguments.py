# SPDX-License-Identifier: Apache-2.0
"""What operators take: vectors, functions that fit the elements, block sizes."""

from __future__ import annotations

from hipress.compll import check_expressions, check_lambdas, ir
from hipress.compll import syntax as s
from hipress.compll.conversions import arithmetic_type, convert, widens
from hipress.compll.functions import FUNCTIONS
from hipress.compll.scope import LambdaRef, Scope, VectorRef


def function_for(argument: s.Expression, scope: Scope, elements: tuple[ir.Scalar, ...]) -> LambdaRef:
    """The function an operator was given, which must take `elements`."""
    unit = scope.unit
    if isinstance(argument, s.Name) and scope.find(argument.name) is None and argument.name in FUNCTIONS:
        return _scalar_function(argument, scope, elements)
    called = check_expressions.lower(argument, scope)
    if not isinstance(called, LambdaRef):
        raise unit.error(argument.span, "a function is needed here", "write [&](float x) -> float { return ...; }")
    types = check_lambdas.parameter_types(called)
    if len(types) != len(elements):
        raise unit.error(argument.span, f"'{called.name}' takes {len(types)} values, here it gets {len(elements)}")
    for parameter, type_, element in zip(called.parameters, types, elements, strict=True):
        if not widens(element, type_):
            raise unit.error(
                argument.span,
                f"'{called.name}' takes {type_} as '{parameter.name}', the elements are {element}",
                "let it take that and convert inside",
            )
    return called


def _scalar_function(argument: s.Name, scope: Scope, elements: tuple[ir.Scalar, ...]) -> LambdaRef:
    """abs, max, … given by name: as if written [&](T a) -> T { return abs(a); }."""
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


def bind(scope: Scope, base: str, type_: ir.Vector, value: ir.Operator) -> VectorRef:
    return VectorRef(scope.let(base, type_, value, value.span), type_)


def block_size(argument: s.Expression, scope: Scope) -> ir.Expr:
    block = convert(scope.unit, check_expressions.scalar(argument, scope), ir.INT, argument.span)
    if isinstance(block, ir.Const) and block.value < 1:
        raise scope.unit.error(argument.span, f"a block of {block.value} elements")
    if not isinstance(block, ir.Const | ir.ParamRef | ir.Cast) or (
        isinstance(block, ir.Cast) and not isinstance(block.operand, ir.ParamRef)
    ):
        raise scope.unit.error(argument.span, "a block's size is a number or a parameter")
    return block


def whole(argument: s.Expression, scope: Scope) -> VectorRef:
    reference = check_expressions.vector(argument, scope)
    if reference.spread is not None:
        raise scope.unit.error(argument.span, "spread is only for map's arguments")
    return reference
