# SPDX-License-Identifier: Apache-2.0
"""Parameters of a codec: from param blocks and from the arguments of encode and decode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.conversions import convert
from hipress.compll.check.scope import Scope, Unit
from hipress.compll.check.type_names import NAMED, resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.expressions import FLOAT16, limits
from hipress.compll.ir.source import CompileError, Source, Span, did_you_mean
from hipress.compll.reference.evaluate import evaluate_static


def collect(file: s.File, entries: Mapping[str, s.Function], source: Source) -> dict[str, ir.Param]:
    """All parameters, in the order in which they are written."""
    unit = Unit(source, "encode", {}, {})
    scope = Scope(unit, None, [])
    blocks: dict[str, s.ParamBlock] = {}
    params: dict[str, ir.Param] = {}
    for item in file.items:
        if isinstance(item, s.ParamBlock):
            if blocks:
                raise CompileError(source, item.span, "there is a second param block", "one block holds them all")
            blocks[item.name] = item
            for field in item.fields:
                if field.name in params:
                    raise CompileError(source, field.span, f"there is a parameter '{field.name}' already")
                params[field.name] = _param(field, scope)
    arguments: dict[str, ir.Param] = {}
    for entry in entries.values():
        named_block = False
        for parameter in entry.parameters[2:]:
            if parameter.state:
                continue
            if parameter.type.name in blocks:
                if named_block:
                    raise CompileError(source, parameter.span, "the param block is named twice")
                named_block = True
                continue
            type_ = _argument_type(parameter, scope, blocks)
            known = arguments.get(parameter.name)
            if parameter.name in params or (known is not None and known.type != type_):
                raise CompileError(source, parameter.span, f"there is a parameter '{parameter.name}' already")
            arguments[parameter.name] = known or ir.Param(
                name=parameter.name, type=type_, default=None, domain=None, span=parameter.span
            )
    params.update(arguments)
    return params


def implicit(params: Mapping[str, ir.Param], encode: ir.Function | None) -> tuple[ir.Param, ...]:
    """The parameters that a program has without declaring them."""
    if encode is None or ir.RESIDUAL not in encode.states:
        return ()

    factor = ir.Param(name="", type=ir.FLOAT, default=1.0, domain=None, implicit=True, span=encode.span)
    both = (
        replace(factor, name=ir.RESIDUAL_FACTOR, domain=ir.Domain(low=0.0, high=1.0)),
        # Merged gradients have been multiplied.
        replace(factor, name=ir.GRADIENT_FACTOR, domain=ir.Domain(low=0.0, high=1.0, low_open=True), merged=1.0),
    )
    return tuple(param for param in both if param.name not in params)


def _argument_type(parameter: s.Parameter, scope: Scope, blocks: Mapping[str, s.ParamBlock]) -> ir.Scalar:
    unit, span = scope.unit, parameter.type.span
    if parameter.type.name not in ("uint", *NAMED):
        hint = did_you_mean(parameter.type.name, [*blocks, *NAMED])
        raise unit.error(span, f"there is no type '{parameter.type.name}'", hint)
    type_ = resolve(parameter.type, scope)
    if isinstance(type_, ir.Vector):
        raise unit.error(span, "a parameter is a scalar", f"a vector that lasts is a state float* {parameter.name}")
    _no_float16(type_, parameter.type.span, unit)
    return type_


def _no_float16(type_: ir.Scalar, span: Span, unit: Unit) -> None:
    if type_ == FLOAT16:
        raise unit.error(span, f"a parameter cannot be a {type_}", "make it a float")


def _param(field: s.ParamField, scope: Scope) -> ir.Param:
    unit = scope.unit
    type_ = resolve(field.type, scope)
    if isinstance(type_, ir.Vector):
        raise unit.error(field.type.span, "a parameter is a scalar")
    _no_float16(type_, field.type.span, unit)
    domain = None
    if isinstance(field.domain, s.SetDomain):
        domain = ir.Domain(values=tuple(constant_number(v, type_, scope) for v in field.domain.values))
    elif isinstance(field.domain, s.IntervalDomain):
        domain = _interval(field.domain, type_, scope)
    default, merged = (
        None if value is None else _allowed(what, value, type_, domain, scope)
        for what, value in (("default", field.default), ("value for merged gradients", field.merged))
    )
    return ir.Param(name=field.name, type=type_, default=default, domain=domain, merged=merged, span=field.span)


def _interval(node: s.IntervalDomain, type_: ir.Scalar, scope: Scope) -> ir.Domain:
    """Infinity as a limit of an integer is the least or the greatest value of its type."""
    numbers, opens = [], []
    for end, is_open in ((node.low, node.low_open), (node.high, node.high_open)):
        sign = -1 if isinstance(end, s.Prefix) and end.operator == "-" else 1
        name = end.operand if isinstance(end, s.Prefix) else end
        infinite = isinstance(name, s.Name) and name.name == "inf"
        whole = type_.kind in ("uint", "int")
        number = limits(type_)[sign > 0] if infinite and whole else sign * math.inf if infinite else None
        numbers.append(constant_number(end, type_, scope) if number is None else number)
        opens.append(is_open and not (infinite and whole))
    low, high = numbers
    if not low < high:
        raise scope.unit.error(node.span, f"no value lies between {low:g} and {high:g}")
    return ir.Domain(None, low, high, *opens)


def _allowed(
    what: str, node: s.Expression, type_: ir.Scalar, domain: ir.Domain | None, scope: Scope
) -> bool | int | float:
    value = constant_number(node, type_, scope)
    if domain is not None and value not in domain:
        raise scope.unit.error(node.span, f"the {what} {value:g} is not in {domain}")
    return bool(value) if type_ == ir.BOOL else value


def constant_number(node: s.Expression, type_: ir.Scalar, scope: Scope) -> int | float:
    """A constant of a param block or of a table."""
    expr = check_expressions.scalar(node, scope)
    if isinstance(expr, ir.Const):
        expr = convert(scope.unit, expr, type_, node.span)
    if isinstance(expr, ir.Const):
        return expr.value
    try:
        value = evaluate_static(expr, {})
    except KeyError:  # the expression needs a random number or a vector
        raise scope.unit.error(
            node.span, "a parameter's limits and default, and a table's elements, are constants"
        ) from None
    low, high = limits(type_) if type_.kind in ("bool", "uint", "int") else (-math.inf, math.inf)
    if not low <= value <= high:
        raise scope.unit.error(node.span, f"{value:g} does not fit in {type_}")
    return float(value) if type_.kind in ("float", "double") else int(value)
