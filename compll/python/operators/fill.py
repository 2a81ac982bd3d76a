# SPDX-License-Identifier: Apache-2.0
"""fill(count, value): the same value `count` times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, count
from hipress.compll.check.expressions import scalar
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.scope import Scope as Text
from hipress.compll.frontend import syntax as s
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, dtype, evaluate


def rule(node: s.Call, scope: Scope) -> Result:
    number, value = count(node.arguments[0], scope), scalar(node.arguments[1], scope)
    return bind(scope, "filled", value.type, ir.Fill(count=number, value=value, span=node.span))


def meaning(op: ir.Fill, environment: Environment) -> NDArray[Any]:
    number = max(0, int(evaluate(op.count, environment)))
    return np.full(number, evaluate(op.value, environment), dtype(op.value.type))


def _plan(planner: Planner, name: str, op: ir.Fill) -> None:
    planner.count(name, op)


def _needs(of: NeedsOf, op: ir.Fill) -> Needs:
    return of.expr(op.value)


def element(scope: Text, op: ir.Fill) -> str:
    return scope.expr(op.value)


PLANNING = Planning(_plan, _needs)
