# SPDX-License-Identifier: Apache-2.0
"""The statements of an encode or decode function."""

from __future__ import annotations

from dataclasses import replace

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check import lambdas as check_lambdas
from hipress.compll.check import maps
from hipress.compll.check import messages as check_messages
from hipress.compll.check.conversions import convert, truth
from hipress.compll.check.length_keys import GRADIENT_LENGTH, shown
from hipress.compll.check.scope import LambdaRef, Output, Pending, Scope, Unit, VectorRef
from hipress.compll.check.type_names import resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.source import Span, did_you_mean


def check(statement: s.Statement, scope: Scope, *, nested: bool = False) -> None:
    """Checks one statement; its IR goes to scope.lets. `nested`: it stands inside an if."""
    unit = scope.unit
    match statement:
        case s.LambdaDefinition():
            value = statement.value
            called = LambdaRef(statement.name, value.parameters, value.results, value.body, scope)
            check_lambdas.scalar_types(value.results, scope)
            scope.define(statement.name, called, statement.span)
        case s.Declaration():
            _declare(statement, scope)
        case s.Assignment():
            _assign(statement, scope, nested=nested)
        case s.MultiAssignment():
            _assign_many(statement, scope, nested=nested)
        case s.If():
            _if(statement, scope)
        case s.Extract() if not nested:
            check_messages.extract(statement, scope)
        case s.CallStatement() if not nested:
            _call(statement, scope)
        case s.Extract() | s.CallStatement():
            raise unit.error(statement.span, "this statement cannot stand inside an if", "move it out of the if")
        case s.Return():
            raise unit.error(
                statement.span, f"{unit.role} returns nothing", "assign the function's output: compressed, or gradient"
            )
        case s.ElementAssignment() | s.CompoundAssignment():
            raise check_lambdas.not_assignable(statement, scope)


def _declare(statement: s.Declaration, scope: Scope) -> None:
    type_ = resolve(statement.type, scope)
    if statement.value is None:
        scope.define(statement.name, Pending(type_), statement.span)
    else:
        # The value is checked before the name is defined, so that `float x = x;` is an error.
        value = _value(statement.name, type_, statement.value, scope)
        scope.define(statement.name, value, statement.span)


def _value(name: str, type_: ir.Type, node: s.Expression, scope: Scope) -> ir.Var | VectorRef:
    """The value of `node` under the name and type that the program gives it."""
    is_new = not isinstance(node, s.Name)  # what has a name keeps it
    if isinstance(type_, ir.Vector):
        found = check_expressions.vector(node, scope)
        if found.spread is not None:
            raise scope.unit.error(node.span, "spread can only be an argument of map")
        require_element(found.type.element, type_.element, node.span, scope)
        return VectorRef(scope.rename(found.name, name) if is_new else found.name, found.type)
    expr = convert(scope.unit, check_expressions.scalar(node, scope), type_, node.span)
    if is_new and isinstance(expr, ir.Var) and scope.lets and getattr(scope.lets[-1], "name", None) == expr.name:
        return ir.Var(name=scope.rename(expr.name, name), type=type_, span=node.span)
    return ir.Var(name=scope.let(name, type_, expr, node.span), type=type_, span=node.span)


def require_element(found: ir.Scalar, wanted: ir.Scalar, span: Span, scope: Scope) -> None:
    if found != wanted:
        raise scope.unit.error(
            span,
            f"this is {found}*, {wanted}* is needed",
            f"let the function that computes the elements return {wanted}",
        )


def _assign(statement: s.Assignment, scope: Scope, *, nested: bool) -> None:
    unit, name = scope.unit, statement.name
    found = scope.lookup(name, statement.span)
    if isinstance(found, Pending):
        scope.bindings[name] = _value(name, found.type, statement.value, scope)
        return
    target_of(name, scope, statement.span, nested=nested)
    if isinstance(found, Output) and found.role == ir.MESSAGE:
        check_messages.concat(statement, scope)
        return
    vector = _value(name, ir.Vector(ir.FLOAT, GRADIENT_LENGTH), statement.value, scope)
    assert isinstance(vector, VectorRef)
    write(name, vector, scope, statement.value.span)
    unit.lengths.setdefault(vector.name, vector.type.length)


def target_of(name: str, scope: Scope, span: Span, *, nested: bool) -> None:
    """Checks that `name` is an output or a state that can be written here."""
    unit = scope.unit
    found = scope.lookup(name, span)
    is_state = isinstance(found, VectorRef) and found.name in unit.states
    if not is_state and not isinstance(found, Output):
        raise unit.error(span, f"'{name}' is assigned twice", "every name is assigned once; use another name")
    written = found.role if isinstance(found, Output) else name
    if written in unit.written:
        raise unit.error(span, f"'{name}' is assigned twice", "a function writes each of its outputs once")
    if nested:
        raise unit.error(
            span, f"'{name}' cannot be assigned inside an if", "compute its value with if, then assign it once"
        )
    unit.written.add(written)


def write(name: str, vector: VectorRef, scope: Scope, span: Span) -> None:
    """Writes a vector to the gradient or to a state."""
    unit, found = scope.unit, scope.find(name)
    wanted = GRADIENT_LENGTH if isinstance(found, Output) else unit.lengths[name]
    if vector.type.length != wanted:
        known = "is as long as the gradient" if wanted == GRADIENT_LENGTH else f"has {shown(wanted)} elements"
        raise unit.error(span, f"sizes differ: '{name}' {known}, this vector has {shown(vector.type.length)} elements")
    if isinstance(found, Output):
        scope.lets.append(ir.WriteGradient(vector=vector.name, span=span))
    else:
        scope.lets.append(ir.WriteState(state=name, vector=vector.name, span=span))


def _assign_many(statement: s.MultiAssignment, scope: Scope, *, nested: bool) -> None:
    unit, node = scope.unit, statement.value
    if not isinstance(node, s.Call) or node.name != "map" or isinstance(scope.find("map"), LambdaRef):
        raise unit.error(node.span, "only map has several results")
    if len(node.arguments) < 2:
        raise unit.error(node.span, "map takes vectors and a function", "write map(vector, ..., function)")
    value, types = maps.lower_map(node, scope)
    if len(types) != len(statement.targets):
        raise unit.error(statement.span, f"map gives {len(types)} results, here are {len(statement.targets)} names")
    names = tuple(unit.fresh(target.name) for target in statement.targets)
    scope.lets.append(ir.LetMany(names=names, types=types, value=value, span=statement.span))
    for target, name, found in zip(statement.targets, names, types, strict=True):
        reference = VectorRef(name, found)
        unit.lengths[name] = found.length
        if target.type is not None:
            wanted = resolve(target.type, scope)
            if not isinstance(wanted, ir.Vector):
                raise unit.error(target.span, f"map's results are vectors: {wanted}* {target.name}")
            require_element(found.element, wanted.element, target.span, scope)
            scope.define(target.name, reference, target.span)
            continue
        known = scope.lookup(target.name, target.span)
        if isinstance(known, Pending):
            if not isinstance(known.type, ir.Vector):
                raise unit.error(target.span, f"map's results are vectors, '{target.name}' is {known.type}")
            require_element(found.element, known.type.element, target.span, scope)
            scope.bindings[target.name] = reference
        else:
            target_of(target.name, scope, target.span, nested=nested)
            if isinstance(known, Output) and known.role == ir.MESSAGE:
                raise unit.error(target.span, "the message is made by concat")
            require_element(found.element, ir.FLOAT, target.span, scope)
            write(target.name, reference, scope, target.span)


def _if(statement: s.If, scope: Scope) -> None:
    unit = scope.unit
    condition = truth(unit, check_expressions.scalar(statement.condition, scope))
    branches = []
    for block in (statement.yes, statement.no):
        branch = scope.child([])
        for inner in block.statements if block is not None else ():
            check(inner, branch, nested=True)
        branches.append(branch)
    joins = []
    for name in check_lambdas.assigned_in(branches, scope):
        yes, no = (branch.find(name) for branch in branches)
        if isinstance(yes, ir.Var) and isinstance(no, ir.Var):
            joined = unit.fresh(name)
            scope.bindings[name] = ir.Var(name=joined, type=yes.type, span=statement.span)
            joins.append(ir.Join(name=joined, type=yes.type, yes=yes.name, no=no.name, span=statement.span))
        elif isinstance(yes, VectorRef) and isinstance(no, VectorRef):
            joined = unit.fresh(name)
            length = yes.type.length if yes.type.length == no.type.length else f"either:{joined}"
            type_ = ir.Vector(yes.type.element, length)
            unit.lengths[joined] = length
            scope.bindings[name] = VectorRef(joined, type_)
            joins.append(ir.Join(name=joined, type=type_, yes=yes.name, no=no.name, span=statement.span))
        else:
            raise unit.error(statement.span, f"'{name}' is assigned in only one branch", "assign it in both")
    yes_lets, no_lets = (tuple(branch.lets) for branch in branches)
    scope.lets.append(ir.If(condition=condition, yes=yes_lets, no=no_lets, joins=tuple(joins), span=statement.span))


def _call(statement: s.CallStatement, scope: Scope) -> None:
    if statement.name == "require":
        _require(statement, scope)
    elif statement.name == "merge_decoded":
        _merge_decoded(statement, scope.unit)
    else:
        known = ("require", "extract", "merge_decoded")
        hint = did_you_mean(statement.name, known) if statement.name not in scope.unit.functions else ""
        raise scope.unit.error(statement.span, f"the result of '{statement.name}' is not used", hint)


def _merge_decoded(statement: s.CallStatement, unit: Unit) -> None:
    if unit.role != "encode":
        raise unit.error(statement.span, "only an encode can ask for merge_decoded")
    if statement.arguments:
        raise unit.error(statement.span, "merge_decoded takes no arguments", "write merge_decoded();")
    if unit.merge_decoded is not None:
        raise unit.error(statement.span, "merge_decoded stands here a second time", "remove it")
    unit.merge_decoded = statement.span


def _require(statement: s.CallStatement, scope: Scope) -> None:
    unit = scope.unit
    if unit.role != "decode":
        raise unit.error(statement.span, "require checks a message, so it stands in decode")
    if len(statement.arguments) != 1:
        raise unit.error(statement.span, "require takes one condition")
    condition = truth(unit, check_expressions.scalar(statement.arguments[0], scope))
    scope.lets.append(ir.Require(condition=condition, span=statement.span))
    _learn(condition, scope)


def _learn(condition: ir.Expr, scope: Scope) -> None:
    """After require(a.size == b.size), the vectors are certainly equally long: their lengths get one key.

    No loop that reads both vectors runs before the check, because the check needs no more than the loop.
    """
    match condition:
        case ir.Binary(operator="&&"):
            _learn(condition.left, scope)
            _learn(condition.right, scope)
        case ir.Binary(operator="==") if condition.left.type == ir.INT:
            unit = scope.unit
            kept, other = sorted(
                (unit.key(condition.left), unit.key(condition.right)), key=lambda key: key != GRADIENT_LENGTH
            )
            for table in (unit.lengths, unit.definitions):
                table.update({name: kept for name, key in table.items() if key == other})
            for name, binding in scope.bindings.items():
                if isinstance(binding, VectorRef) and binding.type.length == other:
                    scope.bindings[name] = replace(binding, type=replace(binding.type, length=kept))
