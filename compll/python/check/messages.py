# SPDX-License-Identifier: Apache-2.0
"""The two operators that know the message's layout: concat writes it, extract reads it."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.conversions import convert
from hipress.compll.check.scope import Output, Pending, Scope, VectorRef
from hipress.compll.check.type_names import resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.source import Span


def concat(statement: s.Assignment, scope: Scope) -> None:
    """compressed = concat(value, …)."""
    unit, node = scope.unit, statement.value
    if not isinstance(node, s.Call) or node.name != "concat":
        raise unit.error(node.span, "the message is made by concat", f"write {statement.name} = concat(...)")
    items: list[ir.Vec | ir.Expr] = []
    for argument in node.arguments:
        item = check_expressions.lower(argument, scope)
        if isinstance(item, VectorRef):
            if item.spread is not None:
                raise unit.error(argument.span, "spread can only be an argument of map")
            _require_wire_type(item.type.element, argument.span, scope)
            items.append(ir.Vec(vector=item.name, span=argument.span))
        else:
            expr = check_expressions.scalar(argument, scope) if not isinstance(item, ir.Expr) else item
            _require_wire_type(expr.type, argument.span, scope)
            items.append(expr)
    if not items:
        raise unit.error(node.span, "the message is empty", "list the values that decode needs")
    scope.lets.append(ir.WriteMessage(items=tuple(items), span=node.span))


def _require_wire_type(type_: ir.Scalar, span: Span, scope: Scope) -> None:
    if type_.kind in ("bool", "double"):
        better = "uint1" if type_.kind == "bool" else "float"
        raise scope.unit.error(span, f"a message cannot hold {type_}", f"make it {better}")


def extract(statement: s.Extract, scope: Scope) -> None:
    """extract(compressed, type name, type name[length], …)."""
    unit = scope.unit
    source = scope.lookup(statement.source, statement.span)
    if unit.role != "decode":
        raise unit.error(statement.span, "extract reads a message, so it stands in decode")
    if not isinstance(source, VectorRef) or source.name != ir.MESSAGE:
        raise unit.error(statement.span, f"'{statement.source}' is not the message")
    if ir.MESSAGE in unit.written:
        raise unit.error(statement.span, "the message is extracted twice", "one extract names all its parts")
    unit.written.add(ir.MESSAGE)
    if not statement.fields:
        raise unit.error(statement.span, "extract names what it reads", "write extract(compressed, float x, ...)")
    # The length of a field may use earlier fields, so it is an expression of names that this very statement defines.
    fields = [_field(field, field is statement.fields[-1], scope) for field in statement.fields]
    scope.lets.append(ir.Extract(fields=tuple(fields), span=statement.span))


def _field(field: s.Field, last: bool, scope: Scope) -> ir.Field:
    unit, span = scope.unit, field.span
    if field.type is not None:
        type_ = resolve(field.type, scope)
    else:
        declared = scope.lookup(field.name, span)
        if isinstance(declared, Output) or not isinstance(declared, Pending):
            raise unit.error(span, f"'{field.name}' is assigned twice", "declare a new name: float x;")
        type_ = declared.type
    element = type_.element if isinstance(type_, ir.Vector) else type_
    _require_wire_type(element, span, scope)
    name = unit.fresh(field.name)
    binding: ir.Var | VectorRef
    length: ir.Expr | None = None
    if field.length is None and not isinstance(type_, ir.Vector):
        binding = ir.Var(name=name, type=element, span=span)
    else:
        if field.length is not None:
            length = convert(unit, check_expressions.scalar(field.length, scope), ir.INT, field.length.span)
            known = unit.key(length)
        else:
            if not last:
                raise unit.error(
                    span, f"the length of '{field.name}' is missing", f"give its length: {field.name}[gradient.size]"
                )
            if element.packed and element.bits != 8:
                raise unit.error(
                    span,
                    f"the length of '{field.name}' does not follow from the number of bytes",
                    f"give its length: {field.name}[gradient.size]",
                )
            known = f"rest:{name}"
        type_ = ir.Vector(element, known)
        unit.lengths[name] = known
        binding = VectorRef(name, type_)
    if field.type is not None:
        scope.define(field.name, binding, span)
    else:
        scope.bindings[field.name] = binding
    return ir.Field(name=name, type=type_, length=length, span=span)
