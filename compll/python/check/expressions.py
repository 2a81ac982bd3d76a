# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions: from syntax to IR, with types."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check import lambdas as check_lambdas
from hipress.compll.check import nearest as check_nearest
from hipress.compll.check import operators as check_operators
from hipress.compll.check import step as check_step
from hipress.compll.check.conversions import arithmetic_type, common_type, convert, truth
from hipress.compll.check.length_keys import GRADIENT_LENGTH
from hipress.compll.check.scope import LambdaRef, Output, Pending, Scope, VectorRef
from hipress.compll.check.type_names import resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.functions import FUNCTIONS
from hipress.compll.ir.operators import OPERATORS
from hipress.compll.ir.source import did_you_mean

Value = ir.Expr | VectorRef | LambdaRef
#: Rounds to infinity: half a unit of the last place above the largest float32.
_BEYOND_FLOAT = float.fromhex("0x1.ffffffp127")


def scalar(node: s.Expression, scope: Scope) -> ir.Expr:
    """The expression, which must be a scalar."""
    value = lower(node, scope)
    if isinstance(value, VectorRef):
        raise scope.unit.error(
            node.span, f"this is a vector ({value.type}), a scalar is needed", "use map to compute it for every element"
        )
    if isinstance(value, LambdaRef):
        raise scope.unit.error(node.span, f"'{value.name}' is a function, a value is needed", "call it")
    return value


def vector(node: s.Expression, scope: Scope) -> VectorRef:
    """The expression, which must be a vector."""
    value = lower(node, scope)
    if not isinstance(value, VectorRef):
        what = f"a function ('{value.name}')" if isinstance(value, LambdaRef) else f"a scalar ({value.type})"
        raise scope.unit.error(node.span, f"this is {what}, a vector is needed")
    return value


def lower(node: s.Expression, scope: Scope) -> Value:
    """The value of `node`; the operators in it are added to the scope's statements."""
    unit, span = scope.unit, node.span
    match node:
        case s.Number():
            return _number(node, scope)
        case s.Boolean():
            return ir.Const(value=node.value, type=ir.BOOL, span=span)
        case s.Name():
            return _name(node, scope)
        case s.Lambda():
            return LambdaRef("lambda", node.parameters, node.results, node.body, scope)
        case s.Cast():
            to = resolve(node.type, scope)
            if isinstance(to, ir.Vector):
                raise unit.error(span, "vectors cannot be cast", "use map to cast every element")
            operand = scalar(node.operand, scope)
            if isinstance(operand, ir.Const) and to.kind in ("float", "double"):
                return convert(unit, operand, to, span)
            return operand if operand.type == to else ir.Cast(operand=operand, type=to, span=span)
        case s.Prefix():
            return _prefix(node, scope)
        case s.Binary():
            return _binary(node, scope)
        case s.Conditional():
            condition = truth(unit, scalar(node.condition, scope))
            yes, no = scalar(node.yes, scope), scalar(node.no, scope)
            type_ = common_type(yes.type, no.type)
            yes, no = convert(unit, yes, type_, yes.span), convert(unit, no, type_, no.span)
            return ir.Select(condition=condition, yes=yes, no=no, type=type_, span=span)
        case s.Attribute():
            return _attribute(node, scope)
        case s.Index():
            return _index(node, scope)
        case s.Random():
            return _random(node, scope)
        case s.Bitcast():
            return _bitcast(node, scope)
        case s.Call():
            return _call(node, scope)


def _number(node: s.Number, scope: Scope) -> ir.Expr:
    text = node.text.lower()
    if text.startswith("0x"):
        value: int | float = int(text, 16)
    elif any(c in text for c in ".ef"):
        real = float(text.rstrip("f"))
        if real >= _BEYOND_FLOAT:
            raise scope.unit.error(node.span, f"{node.text} does not fit in float")
        return ir.Const(value=real, type=ir.FLOAT, span=node.span)
    else:
        value = int(text)
    if value >= 1 << 31:
        raise scope.unit.error(node.span, f"{node.text} does not fit in int", "write a float: 3e9")
    return ir.Const(value=value, type=ir.INT, span=node.span)


def _name(node: s.Name, scope: Scope) -> Value:
    unit = scope.unit
    if node.name == scope.params():
        raise unit.error(node.span, f"'{node.name}' is a block of parameters", f"name one of them: {node.name}.x")
    if scope.find(node.name) is None and node.name in unit.functions:
        return check_lambdas.named(node.name, scope)
    if scope.find(node.name) is None and node.name in FUNCTIONS:
        raise unit.error(node.span, f"'{node.name}' is a function, a value is needed", "call it, or put it in a lambda")
    found = scope.lookup(node.name, node.span)
    if isinstance(found, Pending):
        raise unit.error(node.span, f"'{node.name}' has no value yet", "assign it first, in both branches of an if")
    if isinstance(found, Output):
        raise unit.error(node.span, f"'{node.name}' is the output of this function; it cannot be read")
    if isinstance(found, VectorRef) and found.name in unit.states:
        unit.states_read.add(found.name)
    if isinstance(found, ir.ParamRef):
        unit.params_read.add(found.name)
    return found


def _prefix(node: s.Prefix, scope: Scope) -> ir.Expr:
    unit, operand = scope.unit, scalar(node.operand, scope)
    if node.operator == "!":
        return ir.Unary(operator="!", operand=truth(unit, operand), type=ir.BOOL, span=node.span)
    type_ = arithmetic_type(operand.type, ir.INT)
    if node.operator == "~":
        if type_ != ir.INT:
            raise unit.error(node.span, f"'~' works on integers, this is a {operand.type}")
        return ir.Unary(operator="~", operand=convert(unit, operand, ir.INT, node.span), type=ir.INT, span=node.span)
    if isinstance(operand, ir.Const):
        return ir.Const(value=-operand.value, type=type_, span=node.span)
    return ir.Unary(operator="-", operand=convert(unit, operand, type_, node.span), type=type_, span=node.span)


def _binary(node: s.Binary, scope: Scope) -> ir.Expr:
    unit, operator = scope.unit, node.operator
    left, right = scalar(node.left, scope), scalar(node.right, scope)
    if operator in ("&&", "||"):
        left, right = truth(unit, left), truth(unit, right)
        return ir.Binary(operator=operator, left=left, right=right, type=ir.BOOL, span=node.span)
    type_ = arithmetic_type(left.type, right.type)
    if operator in ("%", "&", "|", "^", "<<", ">>") and type_ != ir.INT:
        wrong = left if left.type.kind in ("float", "double") else right
        raise unit.error(wrong.span, f"'{operator}' works on integers, this is a {wrong.type}", "cast it: (int32) x")
    left, right = convert(unit, left, type_, left.span), convert(unit, right, type_, right.span)
    if operator in ("/", "%") and type_ == ir.INT and isinstance(right, ir.Const) and right.value == 0:
        raise unit.error(right.span, "division by zero")
    result = ir.BOOL if operator in ("<", ">", "<=", ">=", "==", "!=") else type_
    return ir.Binary(operator=operator, left=left, right=right, type=result, span=node.span)


def _attribute(node: s.Attribute, scope: Scope) -> ir.Expr:
    unit = scope.unit
    if isinstance(node.owner, s.Name) and node.owner.name == scope.params():
        param = unit.params.get(node.name)
        if param is None:
            raise unit.error(node.span, f"there is no parameter '{node.name}'", did_you_mean(node.name, unit.params))
        unit.params_read.add(node.name)
        return ir.ParamRef(name=node.name, type=param.type, span=node.span)
    owner = lower(node.owner, scope) if not isinstance(node.owner, s.Name) else _owner(node.owner, scope)
    if not isinstance(owner, VectorRef) or node.name != "size":
        hint = "a vector has only 'size'" if isinstance(owner, VectorRef) else "only vectors have a size"
        raise unit.error(node.span, f"there is no '.{node.name}' here", hint)
    return ir.Size(vector=owner.name, type=ir.INT, span=node.span)


def _owner(node: s.Name, scope: Scope) -> Value:
    """A name before a dot. The gradient that decode writes has a size before it has values."""
    found = scope.find(node.name)
    if isinstance(found, Output) and found.role == ir.GRADIENT:
        return VectorRef(ir.GRADIENT, ir.Vector(ir.FLOAT, GRADIENT_LENGTH))
    if isinstance(found, VectorRef):
        return found  # a program that only asks for a state's size does not read the state
    return _name(node, scope)


def _index(node: s.Index, scope: Scope) -> ir.Expr:
    unit = scope.unit
    owner, index = vector(node.vector, scope), scalar(node.index, scope)
    if arithmetic_type(index.type, ir.INT) != ir.INT:
        raise unit.error(index.span, f"an index is an integer, this is a {index.type}", "cast it: (int32) x")
    if isinstance(index, ir.Const):
        length = owner.type.length
        if index.value < 0 or (length.isdigit() and index.value >= int(length)):
            held = f"has {length} elements" if length.isdigit() else "begins at 0"
            raise unit.error(node.span, f"index {index.value} is out of range", f"the vector {held}")
    index = convert(unit, index, ir.INT, index.span)
    return ir.Index(vector=owner.name, index=index, type=owner.type.element, span=node.span)


def _random(node: s.Random, scope: Scope) -> ir.Expr:
    unit, type_ = scope.unit, resolve(node.type, scope)
    if unit.role == "table":
        raise unit.error(node.span, "a table cannot use random numbers", "its elements are constants")
    if unit.role != "encode":
        raise unit.error(node.span, "decode cannot use random numbers", "all ranks must decode the same values")
    if type_ not in (ir.FLOAT, ir.INT):
        raise unit.error(node.span, "random gives float or int32", "write random<float>(0, 1)")
    if len(node.arguments) != 2:
        raise unit.error(node.span, "random takes a lower and an upper bound", "write random<float>(0, 1)")
    if node.bits not in ("16", "32"):
        raise unit.error(node.span, "a random number has 16 or 32 bits", "write random<float, 16>(0, 1)")
    low, high = (convert(unit, scalar(a, scope), type_, a.span) for a in node.arguments)
    unit.sites += 1
    site, bits = unit.sites - 1, int(node.bits)
    return ir.Random(low=low, high=high, bits=bits, shared=node.shared, site=site, type=type_, span=node.span)


def _bitcast(node: s.Bitcast, scope: Scope) -> ir.Expr:
    unit, to = scope.unit, resolve(node.type, scope)
    if to not in (ir.FLOAT, ir.INT):
        raise unit.error(node.type.span, "bitcast gives float or int32", "write bitcast<int32>(x)")
    if len(node.arguments) != 1:
        raise unit.error(node.span, f"bitcast takes 1 argument, not {len(node.arguments)}")
    operand = scalar(node.arguments[0], scope)
    needed = ir.INT if to == ir.FLOAT else ir.FLOAT
    if arithmetic_type(operand.type, ir.INT) != needed:
        raise unit.error(operand.span, f"bitcast<{to}> takes {needed}, not {operand.type}", "cast it first")
    return ir.Bitcast(operand=convert(unit, operand, needed, operand.span), type=to, span=node.span)


def _call(node: s.Call, scope: Scope) -> Value:
    unit = scope.unit
    target = scope.find(node.name)
    if isinstance(target, LambdaRef) or (target is None and node.name in unit.functions):
        called = target if isinstance(target, LambdaRef) else check_lambdas.named(node.name, scope)
        arguments = tuple(scalar(a, scope) for a in node.arguments)
        results = check_lambdas.inline(called, arguments, scope, node.span)
        if len(results) != 1:
            raise unit.error(
                node.span, f"'{node.name}' has {len(results)} results", "only map takes a function with several results"
            )
        return results[0]
    if node.name in OPERATORS:
        if scope.in_lambda:
            raise unit.error(
                node.span, f"'{node.name}' works on whole vectors, so it cannot stand inside a function of elements"
            )
        return check_operators.lower(node, scope)
    if node.name == "nearest":
        return check_nearest.nearest(node, scope)
    if node.name == "step":
        return check_step.step(node, scope)
    function = FUNCTIONS.get(node.name)
    if function is None:
        known = [*FUNCTIONS, "nearest", "step", *OPERATORS, *unit.functions, *scope.visible()]
        raise unit.error(node.span, f"unknown function '{node.name}'", did_you_mean(node.name, known))
    if len(node.arguments) != function.arity:
        count = f"{function.arity} argument{'s' if function.arity > 1 else ''}"
        raise unit.error(node.span, f"'{node.name}' takes {count}, not {len(node.arguments)}")
    arguments = tuple(scalar(a, scope) for a in node.arguments)
    type_ = ir.FLOAT if function.domain == "float" else ir.INT
    for argument in arguments:
        type_ = arithmetic_type(type_, argument.type)
        if function.domain == "int" and type_ != ir.INT:
            raise unit.error(argument.span, f"'{node.name}' takes integers, this is a {argument.type}")
    arguments = tuple(convert(unit, a, type_, a.span) for a in arguments)
    result = {None: type_, "bool": ir.BOOL, "int": ir.INT, "float": ir.FLOAT}[function.result]
    return ir.Call(function=node.name, arguments=arguments, type=result, span=node.span)
