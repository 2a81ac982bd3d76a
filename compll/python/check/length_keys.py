# SPDX-License-Identifier: Apache-2.0
"""Keys of lengths: two vectors whose lengths have equal keys are certainly equally long.

A key is the expression of the length with every name replaced by its definition. So `range(gradient.size)` has
the key of `gradient`. The compiler does no algebra: n + 1 and 1 + n are different keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hipress.compll import ir

# No variable can have these names.
GRADIENT_LENGTH = "gradient.size"
MESSAGE_LENGTH = "compressed.size"


def key(expr: ir.Expr, definitions: Mapping[str, str], lengths: Mapping[str, str]) -> str:
    """The key of `expr`, given the keys of scalars (`definitions`) and of vectors' lengths."""

    def of(e: ir.Expr) -> str:
        match e:
            case ir.Const():
                return str(e.value)
            case ir.Var():
                return definitions.get(e.name, e.name)
            case ir.ParamRef():
                return f"params.{e.name}"
            case ir.Size():
                return lengths[e.vector]
            case ir.Index():
                return f"{e.vector}[{of(e.index)}]"
            case ir.Unary():
                return f"{e.operator}{of(e.operand)}"
            case ir.Binary():
                return f"({of(e.left)} {e.operator} {of(e.right)})"
            case ir.Select():
                return f"({of(e.condition)} ? {of(e.yes)} : {of(e.no)})"
            case ir.Cast():
                return f"({e.type}){of(e.operand)}"
            case ir.Bitcast():
                return f"bitcast<{e.type}>({of(e.operand)})"
            case ir.Call() if e.function == "blocks":
                return blocks(*map(of, e.arguments))
            case ir.Call():
                return f"{e.function}({', '.join(map(of, e.arguments))})"
            case ir.Random():
                return f"random#{e.site}"
            case ir.StepNumber():
                return "step()"

    return of(expr)


def blocks(length: str, block: str) -> str:
    """The key of ⌈length / block⌉."""
    return f"ceil({length} / {block})"


def shown(length: str) -> str:
    """A key as errors show it."""
    return re.sub(r"filter:[\w.]+", "(as many as a filter keeps)", length)
