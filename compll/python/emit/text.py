# SPDX-License-Identifier: Apache-2.0
"""Pieces of C++ text that every target writes alike."""

from __future__ import annotations

from collections.abc import Iterable

from hipress.compll import ir
from hipress.compll.emit.function import Function
from hipress.compll.emit.scope import c_type


def indented(text: str, by: int) -> str:
    """The text, `by` columns to the right; directives of the preprocessor stay at the left."""
    return "\n".join(line if line.startswith("#") or not line else " " * by + line for line in text.split("\n"))


def params_struct(program: ir.Program) -> str:
    """The struct of the program's parameters."""
    members = "".join(f"  {c_type(p.type)} p_{p.name}{{}};\n" for p in program.params)
    return f"struct Params {{\n{members}}};\n"


def frame_struct(function: Function, own: Iterable[str]) -> str:
    """The frame of a function: the members of the target, then the members that the function's steps asked for."""
    return "struct Frame {\n" + indented("\n".join([*own, *function.members.values()]), 2) + "\n};\n"


def definitions(function: Function) -> str:
    """Functions of single elements, functors of reductions, and kernels."""
    declarations = "".join(text.split("{\n", 1)[0].rstrip() + ";\n" for text in function.at_functions.values())
    functors = "".join(f"struct {name} {{\n{text}}};\n\n" for name, text in function.functors.items())
    return "\n".join([declarations, *function.at_functions.values(), functors, *function.kernels])


def message_items(function: ir.Function) -> tuple[ir.Vec | ir.Expr, ...]:
    """What the message of an encode function consists of."""
    return next(statement.items for statement in function.body if isinstance(statement, ir.WriteMessage))


def gpu_table(codec: str) -> str:
    """The name of the C function that gives a codec's table for GPUs (core/ops/cuda/cuda_codec.h)."""
    return f"hipress_cuda_codec_{codec}"
