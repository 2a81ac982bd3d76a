# SPDX-License-Identifier: Apache-2.0
"""range(count): 0, 1, …, count − 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, count
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.scope import Scope as Text
from hipress.compll.frontend import syntax as s
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, evaluate


@dataclass(frozen=True, kw_only=True)
class Range(ir.Operator):
    count: ir.Expr

    def length(self) -> ir.Length:
        return ir.Exactly(self.count)


def rule(node: s.Call, scope: Scope) -> Result:
    return bind(scope, "range", ir.INT, Range(count=count(node.arguments[0], scope), span=node.span))


def meaning(op: Range, environment: Environment) -> NDArray[Any]:
    return np.arange(max(0, int(evaluate(op.count, environment))), dtype=np.int32)


def _plan(planner: Planner, name: str, op: Range) -> None:
    planner.count(name, op)


def _needs(of: NeedsOf, op: Range) -> Needs:
    return Needs()


def element(scope: Text, op: Range) -> str:
    return scope.position()


PLANNING = Planning(_plan, _needs, increasing=lambda vectors, op: True)
