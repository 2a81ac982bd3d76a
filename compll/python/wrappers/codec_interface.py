# SPDX-License-Identifier: Apache-2.0
"""The parts of a codec that a framework's operators need: its name, its states, its options."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipress.compll import ir
from hipress.errors import InvalidArgument

#: Names of arguments that every operator has; a state of such a name is called <name>_state there. The same list is
#: in core/codec/operator_codec.cc.
_TAKEN = ("gradient", "options", "seed", "step", "tensor", "scale", "message")


@dataclass(frozen=True)
class CodecInterface:
    """`options` are (name, default, type) as a user writes them; an empty default means that a value must be given."""

    name: str
    states: tuple[str, ...] = ()
    options: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        for name in (self.name, *self.states):
            if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
                raise InvalidArgument(f"codec {self.name}: '{name}' is no name for operators; use letters of ASCII")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the operators' arguments for the states."""
        return tuple(state + ("_state" if state in _TAKEN else "") for state in self.states)

    @property
    def title(self) -> str:
        """The name in the style of a type's name: tern_grad becomes TernGrad."""
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("_"))

    @property
    def option_lines(self) -> str:
        """The options as lines of a comment in C++."""
        if not self.options:
            return "// It has no options.\n"
        shown = (f"//   {name}={default or '...'}  ({kind})\n" for name, default, kind in self.options)
        return "// Its options, written with commas between them:\n" + "".join(shown)


def codec_interface(program: ir.Program) -> CodecInterface:
    """The interface of a checked program. Error feedback is an option of every codec with states. A residual brings
    the options that the program does not declare."""
    states = program.encode.states if program.encode is not None else ()
    declared = [_option(param) for param in program.params if not param.implicit]
    if states and all(p.name != ir.ERROR_FEEDBACK for p in program.params):
        declared.append((ir.ERROR_FEEDBACK, "true", "bool"))
    implicit = [_option(param) for param in program.params if param.implicit]
    return CodecInterface(program.name, states, (*declared, *implicit))


def _option(param: ir.Param) -> tuple[str, str, str]:
    return param.name, _text(param.default), str(param.type)


def _text(default: bool | int | float | None) -> str:
    if default is None:
        return ""
    return str(default).lower() if isinstance(default, bool) else f"{default:g}"
