# SPDX-License-Identifier: Apache-2.0
"""How long a state is: as long as the gradient, or with one value for each block of elements.

The runtime cuts a tensor into partitions, and cuts its states with it. A partition begins at a multiple of 1024
elements, so a block whose size divides 1024 is never in two partitions.
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.length_keys import GRADIENT_LENGTH, blocks
from hipress.compll.check.scope import Unit
from hipress.compll.frontend import syntax as s

#: Partitions begin at multiples of this number of elements (core/casync/graph/partition.h).
_ALIGNMENT = 1024


def state_length(parameter: s.Parameter, gradient: str, unit: Unit) -> str:
    """The key of the state's length. `gradient`: the function's name for the gradient."""
    if parameter.type.name != "float" or (not parameter.type.vector and parameter.length is None):
        raise unit.error(
            parameter.type.span,
            "a state is a float*, as long as the gradient",
            f"with one float for each block of 256 elements it is a state float {_form(parameter, gradient)}",
        )
    if parameter.length is None:
        unit.states[parameter.name] = 1
        return GRADIENT_LENGTH
    block = _block(parameter.length, parameter, gradient, unit)
    if parameter.name == ir.RESIDUAL:
        raise unit.error(
            parameter.length.span,
            "a residual is as long as the gradient",
            f"it has the dropped part of each element: write state float* {ir.RESIDUAL}, or use another name",
        )
    unit.states[parameter.name] = block
    return blocks(GRADIENT_LENGTH, str(block))


def _block(length: s.Expression, parameter: s.Parameter, gradient: str, unit: Unit) -> int:
    match length:
        case s.Call(
            name="blocks",
            arguments=(s.Attribute(owner=s.Name(name=named), name="size"), s.Number(text=text) as size),
        ) if named == gradient:
            block = int(text) if text.isdecimal() else 0
            if block == 0 or _ALIGNMENT % block != 0:
                raise unit.error(
                    size.span,
                    f"a state cannot have one value for each {text} elements",
                    f"partitions of a tensor begin at multiples of {_ALIGNMENT} elements, so the block divides "
                    f"{_ALIGNMENT}: 1, 2, 4, ... or {_ALIGNMENT}",
                )
            return block
    raise unit.error(
        length.span,
        "this cannot be the length of a state",
        f"write {_form(parameter, gradient)}; the block is a number that divides {_ALIGNMENT}, not a parameter",
    )


def _form(parameter: s.Parameter, gradient: str) -> str:
    return f"{parameter.name}[blocks({gradient}.size, 256)]"
