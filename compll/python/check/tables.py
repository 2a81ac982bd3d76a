# SPDX-License-Identifier: Apache-2.0
"""Tables of constants: the compiler computes their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check import lambdas as check_lambdas
from hipress.compll.check.params import constant_number
from hipress.compll.check.scope import LambdaRef, Scope, Unit
from hipress.compll.check.type_names import resolve
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.operators import OPERATORS
from hipress.compll.ir.source import Source
from hipress.compll.reference.evaluate import Environment, apply, dtype

#: The most elements of a table. A generated codec holds tables as text, so a long table takes long to compile.
MOST_ELEMENTS = 4096


def collect(
    file: s.File, functions: Mapping[str, s.Function], source: Source
) -> tuple[dict[str, ir.Let], frozenset[str]]:
    """The definitions of all tables, by name, in the order in which they are written; tables that others read."""
    tables: dict[str, ir.Let] = {}
    read: set[str] = set()
    for item in file.items:
        if not isinstance(item, s.Table):
            continue
        unit = Unit(source, "table", dict(functions), {}, tables=dict(tables))
        if item.name in tables or item.name in functions or item.name in OPERATORS:
            raise unit.error(item.span, f"the name '{item.name}' is already in use", "use another name")
        tables[item.name] = _table(item, unit)
        read |= unit.tables_read
    return tables, frozenset(read)


def _table(item: s.Table, unit: Unit) -> ir.Let:
    scope = Scope(unit, None, [])
    element = resolve(item.type, scope)
    if element not in (ir.FLOAT, ir.INT):
        raise unit.error(item.type.span, f"a table holds float or int32, not {element}")
    assert isinstance(element, ir.Scalar)
    count = int(constant_number(item.size, ir.INT, scope))
    if not 1 <= count <= MOST_ELEMENTS:
        raise unit.error(item.size.span, f"a table cannot have {count} elements", f"it has 1 to {MOST_ELEMENTS}")
    if isinstance(item.values, s.Lambda):
        values = _computed(item.values, element, count, scope)
    else:
        if len(item.values) != count:
            raise unit.error(item.span, f"the table has {len(item.values)} values and {count} elements")
        values = np.array([constant_number(value, element, scope) for value in item.values], dtype(element))
    for number, value in enumerate(values):
        if not np.isfinite(value):
            raise unit.error(item.span, f"element {number} of the table is {value:g}", "the elements are finite")
    return definition(item.name, element, tuple(value.item() for value in values), item)


def definition(name: str, element: ir.Scalar, values: tuple[int | float, ...], node: s.Syntax) -> ir.Let:
    """The definition of a table with these values."""
    value = ir.Constants(values=values, type=element, span=node.span)
    return ir.Let(name=name, type=ir.Vector(element, str(len(values))), value=value, span=node.span)


@np.errstate(all="ignore")
def _computed(node: s.Lambda, element: ir.Scalar, count: int, scope: Scope) -> NDArray[Any]:
    """The values that a function gives for 0, 1, … count − 1."""
    unit, called = scope.unit, LambdaRef("lambda", node.parameters, node.results, node.body, scope)
    if check_lambdas.parameter_types(called) != (ir.INT,):
        raise unit.error(
            node.span, "a table's function takes the element's number", "write [&](int i) -> float { ... }"
        )
    function = check_lambdas.as_lambda(called, node.span)
    if tuple(result.type for result in function.results) != (element,):
        raise unit.error(node.span, f"a table's function gives {element}, as the table holds")
    vectors = {name: values_of(let) for name, let in unit.tables.items()}
    numbers = np.arange(count, dtype=np.int32)
    (values,) = apply(function, (numbers,), Environment({}, vectors=vectors), numbers)
    return np.array(np.broadcast_to(values, (count,)), dtype(element))


def values_of(let: ir.Let) -> NDArray[Any]:
    """A table's values."""
    assert isinstance(let.value, ir.Constants)
    return np.array(let.value.values, dtype(let.value.type))
