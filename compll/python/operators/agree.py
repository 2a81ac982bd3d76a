# SPDX-License-Identifier: Apache-2.0
"""agree(statistics, max): one number for each block, which all ranks combine before they encode.

`statistics` is a call of reduce_blocks, or a map of its results.

Its value is the combined statistics, where ranks sum encoded values (check/summed.py), and the rank's own statistics
otherwise. So it has no node: it is the vector of its first argument.
"""

from __future__ import annotations

from typing import get_args

from hipress.compll import ir
from hipress.compll.check import length_keys
from hipress.compll.check.arguments import whole
from hipress.compll.check.length_keys import GRADIENT_LENGTH
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Agreed, Scope, VectorRef
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.summed import Agreement

_WRITE = "write agree(reduce_blocks(...), max)"


def rule(node: s.Call, scope: Scope) -> Result:
    unit = scope.unit
    statistics, how = node.arguments
    if unit.role != "encode":
        raise unit.error(node.span, "ranks agree before they encode, so agree stands in encode")
    if scope.parent is not None:
        raise unit.error(
            node.span, "agree cannot stand inside an if or a function", "all ranks must come to it: move it out"
        )
    if unit.agreed is not None:
        raise unit.error(node.span, "ranks agree a second time", "a codec has one round of statistics")
    # A name would also stand for this rank's own statistics, which no expression can have besides the combined ones.
    if not isinstance(statistics, s.Call) or statistics.name not in ("reduce_blocks", "map"):
        raise unit.error(statistics.span, "ranks agree on a call of reduce_blocks, or of map", _WRITE)
    names = get_args(Agreement)
    if not isinstance(how, s.Name) or how.name not in names:
        raise unit.error(how.span, "ranks combine statistics by max, min or sum", _WRITE)
    result = whole(statistics, scope)
    if result.type.element != ir.FLOAT:
        raise unit.error(
            statistics.span, f"ranks agree on float*, this is {result.type.element}*", "reduce a vector of floats"
        )
    unit.agreed = Agreed(len(scope.lets) - 1, how.name, _block(result, statistics, scope), node.span)
    return result


def _block(result: VectorRef, statistics: s.Expression, scope: Scope) -> ir.Expr:
    """How many elements of the gradient each of the statistics stands for."""
    unit = scope.unit
    for let in scope.lets:
        op = let.value if isinstance(let, ir.Let) else None
        if not isinstance(op, ir.ReduceBlocks) or unit.lengths[op.vector] != GRADIENT_LENGTH:
            continue
        if length_keys.blocks(GRADIENT_LENGTH, unit.key(op.block)) == result.type.length:
            return op.block
    raise unit.error(statistics.span, "ranks agree on blocks of a vector that is as long as the gradient")
