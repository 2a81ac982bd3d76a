# SPDX-License-Identifier: Apache-2.0
"""Values for a program's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hipress.compll import ir
from hipress.compll.ir.expressions import limits
from hipress.compll.ir.source import did_you_mean
from hipress.errors import InvalidArgument


def bind_params(params: Iterable[ir.Param], given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for every parameter: the given one, or the default. Text is read as the parameter's type."""
    known = {param.name: param for param in params}
    for name in given:
        if name not in known:
            raise InvalidArgument(f"there is no parameter '{name}'; {did_you_mean(name, known)}")
    values = {}
    for name, param in known.items():
        if name in given:
            values[name] = _checked(param, given[name])
        elif param.default is not None:
            values[name] = param.default
        else:
            raise InvalidArgument(f"parameter '{name}' has no default: give it a value")
    return values


def example(param: ir.Param) -> Any:
    """Any allowed value, for an analysis whose result does not depend on the value."""
    if param.default is not None:
        return param.default
    if param.domain is None:
        return 1
    if param.domain.values is not None:
        return param.domain.values[0]
    for value in (1, param.domain.low, param.domain.high, (param.domain.low + param.domain.high) / 2):
        if value in param.domain:
            return value
    return param.domain.low


def _checked(param: ir.Param, value: Any) -> bool | int | float:
    whole = param.type.kind in ("bool", "uint", "int")
    if isinstance(value, str) and param.type.kind == "bool" and value in ("true", "false"):
        value = value == "true"
    try:
        number = int(value) if whole else float(value)
        exact = number == value or isinstance(value, str)
    except (ValueError, TypeError, OverflowError):
        exact = False
    if not exact:
        raise InvalidArgument(f"parameter '{param.name}' is {param.type}, not {value!r}")
    if whole:
        low, high = limits(param.type)
        if not low <= number <= high:
            raise InvalidArgument(f"{param.name}={number} does not fit in {param.type}")
    if number != number or (param.domain is not None and number not in param.domain):
        raise InvalidArgument(f"{param.name}={number:g} is not in {param.domain}")
    return bool(number) if param.type.kind == "bool" else number
