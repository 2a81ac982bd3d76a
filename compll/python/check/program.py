# SPDX-License-Identifier: Apache-2.0
"""From the syntax tree of a file to a checked program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hipress.compll import ir
from hipress.compll.check import lambdas as check_lambdas
from hipress.compll.check import params as check_params
from hipress.compll.check import statements as check_statements
from hipress.compll.check import tables as check_tables
from hipress.compll.check.length_keys import GRADIENT_LENGTH, MESSAGE_LENGTH
from hipress.compll.check.scope import LambdaRef, Output, Scope, Unit, VectorRef
from hipress.compll.check.state_lengths import state_length
from hipress.compll.check.summed import check_decode, summed
from hipress.compll.frontend import syntax as s
from hipress.compll.frontend.parser import parse
from hipress.compll.ir.operators import OPERATORS
from hipress.compll.ir.source import CompileError, Source, Span
from hipress.compll.reference import bounds

_ROLES = {"Encode": "encode", "Decode": "decode"}


def compile_text(text: str, name: str = "<text>", *, complete: bool = True) -> ir.Program:
    """Parses and checks a program. Errors call the file `name`.

    `complete`: the program must have both encode and decode; otherwise one of them is enough.
    Raises CompileError, and nothing else, if the program is wrong.
    """
    source = Source(name, text)
    try:
        return _check(parse(source), source, complete=complete)
    except RecursionError as error:  # functions call functions, and each call is written out in its place
        raise CompileError(source, _innermost(error), "this program is nested too deeply") from None


def _innermost(error: RecursionError) -> Span:
    """The piece of the program that the compiler was working on."""
    found, trace = Span(1, 1, 1, 1), error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            found = value.span if isinstance(value, s.Syntax) else found
        trace = trace.tb_next
    return found


def _check(file: s.File, source: Source, *, complete: bool) -> ir.Program:
    entries: dict[str, s.Function] = {}
    functions: dict[str, s.Function] = {}
    for item in file.items:
        if isinstance(item, s.GlobalVariable):
            raise CompileError(
                source,
                item.span,
                f"'{item.name}' is defined outside of encode and decode",
                "define it inside one of them; a lambda sees the names around it. Constants are a table",
            )
        if not isinstance(item, s.Function):
            continue
        if item.results:
            if item.name in functions or item.name in OPERATORS:
                raise CompileError(source, item.span, f"the name '{item.name}' is already in use", "use another name")
            functions[item.name] = item
            continue
        role = _ROLES.get(item.name[-6:], "") if len(item.name) > 6 else ""
        if not role:
            raise CompileError(
                source, item.span, f"'{item.name}' is neither an encode nor a decode", "call it XEncode or XDecode"
            )
        if role in entries:
            raise CompileError(source, item.span, f"there is a second {role}", "a file has one codec")
        entries[role] = item
    name = _codec_name(entries, source, complete=complete)
    params = check_params.collect(file, entries, source)
    tables, tables_read = check_tables.collect(file, functions, source)
    checked = {
        role: _function(Unit(source, role, functions, params, tables=dict(tables)), entry)
        for role, entry in entries.items()
    }
    read = {name for _, unit in checked.values() for name in unit.params_read}
    if ir.ERROR_FEEDBACK in params:
        _check_error_feedback(params[ir.ERROR_FEEDBACK], checked, source)
        read.add(ir.ERROR_FEEDBACK)
    for param in params.values():
        if param.name not in read:
            raise CompileError(source, param.span, f"parameter '{param.name}' is never used", "use it, or remove it")
    read_tables = tables_read.union(*(unit.tables_read for _, unit in checked.values()))
    for table in tables.values():
        if table.name not in read_tables:
            raise CompileError(source, table.span, f"table '{table.name}' is never used", "use it, or remove it")
    for unused in functions.values():
        # A function that no other function calls is checked, too.
        unit = Unit(source, "encode", functions, params, tables=dict(tables))
        check_lambdas.as_lambda(check_lambdas.named(unused.name, Scope(unit, None, [])), unused.span)
    encode, decode = (checked[role][0] if role in checked else None for role in ("encode", "decode"))
    if encode is not None and encode.summed is not None and decode is not None:
        check_decode(decode, source)
    implicit = check_params.implicit(params, encode)
    if encode is not None and any(param.name == ir.RESIDUAL_FACTOR for param in implicit):
        encode = replace(encode, factors=((ir.RESIDUAL, ir.RESIDUAL_FACTOR),))
    return ir.Program(name, (*params.values(), *implicit), encode, decode)


def _check_error_feedback(param: ir.Param, checked: dict[str, tuple[ir.Function, Unit]], source: Source) -> None:
    """The parameter with which a codec gives its option error_feedback another default."""
    if param.type != ir.BOOL or param.default is None:
        raise CompileError(
            source, param.span, f"'{param.name}' is a bool with a default", f"write bool {param.name} = false;"
        )
    if "encode" in checked and not checked["encode"][0].states:
        raise CompileError(
            source, param.span, f"'{param.name}' says whether states are kept, and there are none", "remove it"
        )


def _codec_name(entries: Mapping[str, s.Function], source: Source, *, complete: bool) -> str:
    end = Span(1, 1, 1, 1)
    if not entries:
        raise CompileError(source, end, "there is no codec here", "it needs void XEncode(...) and void XDecode(...)")
    first = next(iter(entries.values()))
    stem = first.name[:-6]
    if complete:
        for suffix, role in _ROLES.items():
            if role not in entries:
                raise CompileError(
                    source,
                    first.span,
                    f"this codec has no {role}",
                    f"add void {stem}{suffix}(...), or check this part alone (--part)",
                )
    for entry in entries.values():
        if entry.name[:-6] != stem:
            raise CompileError(
                source,
                entry.span,
                f"'{entry.name}' does not belong to '{first.name}'",
                f"call it {stem}{entry.name[-6:]}",
            )
    return stem.lower()


def _function(unit: Unit, entry: s.Function) -> tuple[ir.Function, Unit]:
    role = unit.role
    statements: list[ir.Statement] = []
    scope = Scope(unit, None, statements)
    wanted = (("float", ir.GRADIENT), ("uint8", ir.MESSAGE))
    if role == "decode":
        wanted = wanted[::-1]
    form = ", ".join(f"{type_}* {name}" for type_, name in wanted)
    hint = f"write void {entry.name}({form}, ...)"
    for number, (type_, ir_name) in enumerate(wanted):
        if number >= len(entry.parameters):
            raise unit.error(entry.span, f"'{entry.name}' takes too few arguments", hint)
        parameter = entry.parameters[number]
        if parameter.type.name != type_ or not parameter.type.vector or parameter.state:
            raise unit.error(parameter.type.span, f"this argument of {role} is a {type_}*", hint)
        unit.names.add(ir_name)
        length = GRADIENT_LENGTH if ir_name == ir.GRADIENT else MESSAGE_LENGTH
        unit.lengths[ir_name] = length
        element = ir.FLOAT if ir_name == ir.GRADIENT else ir.UINT8
        reference = VectorRef(ir_name, ir.Vector(element, length))
        scope.define(parameter.name, reference if number == 0 else Output(ir_name), parameter.span)
    states = _bind_rest(entry.parameters[2:], entry.parameters[0].name, scope)
    for statement in entry.body.statements:
        check_statements.check(statement, scope)
    for binding in list(scope.bindings.values()):
        if isinstance(binding, LambdaRef):  # a lambda that nothing uses is checked, too
            used = unit.sites
            check_lambdas.as_lambda(binding, entry.span)
            unit.sites = used
    _require_outputs(role, entry, states, unit)
    tables = (let for name, let in unit.tables.items() if name in unit.tables_read)
    function = ir.Function(
        name=entry.name,
        states=tuple(p.name for p in states),
        blocks_of_states=tuple((p.name, unit.states[p.name]) for p in states if unit.states[p.name] != 1),
        body=(*tables, *statements),
        summed=summed(unit, statements),
        merges_decoded=unit.merge_decoded is not None,
        span=entry.span,
    )
    _check_merge_decoded(unit, function)
    bounds.require_bounded(function, unit.source, unit.params.values())
    return function, unit


def _check_merge_decoded(unit: Unit, function: ir.Function) -> None:
    if unit.merge_decoded is None:
        return
    if function.summed is not None:
        raise unit.error(
            unit.merge_decoded, "ranks add what this codec encodes, an aggregator's own values too", "remove it"
        )
    if function.states:
        # An aggregator would keep the states of its contribution besides those of the sum, and handing states over to
        # another number of ranks knows one role for each element.
        raise unit.error(
            unit.merge_decoded,
            f"a codec that merges decoded values keeps no states, and this one has '{function.states[0]}'",
            "remove the state, or merge_decoded",
        )


def _bind_rest(parameters: tuple[s.Parameter, ...], gradient: str, scope: Scope) -> list[s.Parameter]:
    """States, parameters and the param block; returns the states. `gradient`: the function's name for it."""
    unit = scope.unit
    states = []
    for parameter in parameters:
        if parameter.state:
            if unit.role != "encode":
                raise unit.error(parameter.span, "decode has no state", "all ranks must decode the same values")
            length = state_length(parameter, gradient, unit)
            unit.names.add(parameter.name)
            unit.lengths[parameter.name] = length
            scope.define(parameter.name, VectorRef(parameter.name, ir.Vector(ir.FLOAT, length)), parameter.span)
            states.append(parameter)
        elif parameter.name in unit.params:
            param = unit.params[parameter.name]
            scope.define(parameter.name, ir.ParamRef(name=param.name, type=param.type, span=param.span), parameter.span)
        elif parameter.type.name not in ("uint8", "int32"):  # a param block, which params.py has checked
            scope.param_name = parameter.name
    return states


def _require_outputs(role: str, entry: s.Function, states: list[s.Parameter], unit: Unit) -> None:
    output = ir.MESSAGE if role == "encode" else ir.GRADIENT
    if role == "decode" and ir.MESSAGE not in unit.written:
        raise unit.error(entry.span, "decode reads no message", "write extract(compressed, ...)")
    if output not in unit.written:
        parameter = entry.parameters[1]
        what = f"{parameter.name} = concat(...)" if role == "encode" else f"{parameter.name} = ..."
        raise unit.error(entry.span, f"{role} never writes '{parameter.name}'", f"write {what}")
    for state in states:
        if state.name not in unit.states_read:
            raise unit.error(state.span, f"state '{state.name}' is never read", "remove it")
        if state.name not in unit.written:
            raise unit.error(state.span, f"state '{state.name}' is never written", f"write {state.name} = ...")
