# SPDX-License-Identifier: Apache-2.0
"""Functions of elements: lambdas and named functions become trees of expressions; if/else becomes Select."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check import expressions as check_expressions
from hipress.compll.check.conversions import convert, truth
from hipress.compll.check.scope import LambdaRef, Pending, Scope, VectorRef
from hipress.compll.check.type_names import resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.source import Span

_MOST_CALLS = 10000


def named(name: str, scope: Scope) -> LambdaRef:
    """A function of the file. It sees its own parameters and nothing else."""
    function = scope.unit.functions[name]
    return LambdaRef(
        name, function.parameters, function.results, function.body, Scope(scope.unit, None, [], in_lambda=True)
    )


def scalar_types(names: tuple[s.TypeName, ...], scope: Scope) -> tuple[ir.Scalar, ...]:
    types = []
    for name in names:
        type_ = resolve(name, scope)
        if isinstance(type_, ir.Vector):
            raise scope.unit.error(name.span, "functions of elements take and give scalars", f"write {type_.element}")
        types.append(type_)
    return tuple(types)


def parameter_types(called: LambdaRef) -> tuple[ir.Scalar, ...]:
    return scalar_types(tuple(p.type for p in called.parameters), called.scope)


def as_lambda(called: LambdaRef, span: Span) -> ir.Lambda:
    """The function as an operator takes it. Each use of the function has its own names."""
    unit = called.scope.unit
    lets: list[ir.Statement] = []
    scope = called.scope.child(lets, in_lambda=True)
    parameters = []
    for parameter, type_ in zip(called.parameters, parameter_types(called), strict=True):
        name = unit.fresh(parameter.name)
        scope.define(parameter.name, ir.Var(name=name, type=type_, span=parameter.span), parameter.span)
        parameters.append((name, type_))
    results = _body(called, scope, span)
    only_lets = tuple(let for let in lets if isinstance(let, ir.Let))
    return ir.Lambda(parameters=tuple(parameters), lets=only_lets, results=results, span=span)


def inline(called: LambdaRef, arguments: tuple[ir.Expr, ...], scope: Scope, span: Span) -> tuple[ir.Expr, ...]:
    """The results of calling the function here."""
    unit = scope.unit
    types = parameter_types(called)
    if len(types) != len(arguments):
        raise unit.error(
            span,
            f"'{called.name}' takes {len(types)} argument{'' if len(types) == 1 else 's'}, not {len(arguments)}",
        )
    inner = called.scope.child(scope.lets, in_lambda=True)
    for parameter, type_, argument in zip(called.parameters, types, arguments, strict=True):
        value = convert(unit, argument, type_, argument.span)
        name = scope.let(parameter.name, type_, value, argument.span)
        inner.define(parameter.name, ir.Var(name=name, type=type_, span=parameter.span), parameter.span)
    return _body(called, inner, span)


def _body(called: LambdaRef, scope: Scope, span: Span) -> tuple[ir.Expr, ...]:
    unit = scope.unit
    if called.name in unit.inlining and called.name != "lambda":
        raise unit.error(span, f"'{called.name}' calls itself", "the language has no recursion")
    unit.calls += 1
    if unit.calls > _MOST_CALLS:
        raise unit.error(span, f"more than {_MOST_CALLS} calls of functions", "the compiler writes out every call")
    types = scalar_types(called.results, called.scope)
    unit.inlining.append(called.name)
    results = _returned(called.body.statements, scope, types)
    unit.inlining.pop()
    if results is None:
        raise unit.error(called.body.span, f"'{called.name}' does not return a value on every path", "add a return")
    return results


def _returned(
    statements: tuple[s.Statement, ...], scope: Scope, types: tuple[ir.Scalar, ...]
) -> tuple[ir.Expr, ...] | None:
    """The values that the statements return; None if a path returns nothing."""
    unit = scope.unit
    for number, statement in enumerate(statements):
        rest = statements[number + 1 :]
        match statement:
            case s.Return():
                if rest:
                    raise unit.error(rest[0].span, "this statement is never reached: the statement before it returns")
                if len(statement.values) != len(types):
                    raise unit.error(
                        statement.span, f"{len(statement.values)} values are returned, {len(types)} are declared"
                    )
                return tuple(
                    convert(unit, check_expressions.scalar(value, scope), type_, value.span)
                    for value, type_ in zip(statement.values, types, strict=True)
                )
            case s.If() if _returns(statement.yes) or (statement.no is not None and _returns(statement.no)):
                return _choice(statement, rest, scope, types)
            case _:
                _simple(statement, scope)
    return None


def _returns(block: s.Block) -> bool:
    """Whether the block has a return, at any depth."""
    return any(
        isinstance(x, s.Return) or (isinstance(x, s.If) and (_returns(x.yes) or (x.no is not None and _returns(x.no))))
        for x in block.statements
    )


def _choice(
    statement: s.If, rest: tuple[s.Statement, ...], scope: Scope, types: tuple[ir.Scalar, ...]
) -> tuple[ir.Expr, ...] | None:
    unit = scope.unit
    condition = truth(unit, check_expressions.scalar(statement.condition, scope))
    otherwise = statement.no.statements if statement.no is not None else ()
    yes = _returned(statement.yes.statements, scope.child(scope.lets), types)
    if yes is None:
        raise unit.error(statement.span, "only the second branch returns", "let the first branch return")
    # The statements after the if belong to the branch that goes on.
    no = _returned((*otherwise, *rest), scope.child(scope.lets), types)
    if no is None:
        return None
    return tuple(
        ir.Select(condition=condition, yes=a, no=b, type=type_, span=statement.span)
        for a, b, type_ in zip(yes, no, types, strict=True)
    )


def _simple(statement: s.Statement, scope: Scope) -> None:
    """A statement that does not return: a definition, or an if that assigns."""
    unit = scope.unit
    match statement:
        case s.Declaration():
            (type_,) = scalar_types((statement.type,), scope)
            if statement.value is None:
                scope.define(statement.name, Pending(type_), statement.span)
            else:
                scope.define(statement.name, _let(statement.name, type_, statement.value, scope), statement.span)
        case s.Assignment():
            assign_scalar(statement, scope)
        case s.If():
            _assigning_if(statement, scope)
        case s.LambdaDefinition():
            value = statement.value
            defined = LambdaRef(statement.name, value.parameters, value.results, value.body, scope)
            scope.define(statement.name, defined, statement.span)
        case s.ElementAssignment() | s.CompoundAssignment():
            raise not_assignable(statement, scope)
        case _:
            raise unit.error(statement.span, "this statement cannot stand inside a function of elements")


def not_assignable(statement: s.ElementAssignment | s.CompoundAssignment, scope: Scope) -> Exception:
    scope.lookup(statement.name, statement.span)
    if isinstance(statement, s.ElementAssignment):
        hint = "compute the whole vector with map, or put values in it with scatter"
        return scope.unit.error(statement.span, "single elements cannot be assigned", hint)
    return scope.unit.error(statement.span, f"'{statement.name}' would be assigned twice", "give the result a new name")


def _let(name: str, type_: ir.Scalar, value: s.Expression, scope: Scope) -> ir.Var:
    expr = convert(scope.unit, check_expressions.scalar(value, scope), type_, value.span)
    return ir.Var(name=scope.let(name, type_, expr, value.span), type=type_, span=value.span)


def assign_scalar(statement: s.Assignment, scope: Scope) -> None:
    """Gives a declared scalar its value in this scope. An if joins the values of its branches."""
    found = scope.lookup(statement.name, statement.span)
    if not isinstance(found, Pending):
        raise scope.unit.error(
            statement.span, f"'{statement.name}' is assigned twice", "every name is assigned once; use another name"
        )
    if isinstance(found.type, ir.Vector):
        raise scope.unit.error(statement.span, "vectors cannot be assigned here")
    scope.bindings[statement.name] = _let(statement.name, found.type, statement.value, scope)


def _assigning_if(statement: s.If, scope: Scope) -> None:
    unit = scope.unit
    condition = truth(unit, check_expressions.scalar(statement.condition, scope))
    branches = []
    for block in (statement.yes, statement.no):
        branch = scope.child(scope.lets)
        for inner in block.statements if block is not None else ():
            _simple(inner, branch)
        branches.append(branch)
    for name in assigned_in(branches, scope):
        yes, no = (branch.find(name) for branch in branches)
        if not isinstance(yes, ir.Var) or not isinstance(no, ir.Var) or isinstance(yes, VectorRef):
            raise unit.error(statement.span, f"'{name}' is assigned in only one branch", "assign it in both")
        value = ir.Select(condition=condition, yes=yes, no=no, type=yes.type, span=statement.span)
        joined = scope.let(name, yes.type, value, statement.span)
        scope.bindings[name] = ir.Var(name=joined, type=yes.type, span=statement.span)


def assigned_in(branches: list[Scope], scope: Scope) -> list[str]:
    """The declared names of `scope` that a branch gives a value, in a fixed order."""
    return sorted({name for b in branches for name in b.bindings if isinstance(scope.find(name), Pending)})
