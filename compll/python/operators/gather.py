# SPDX-License-Identifier: Apache-2.0
"""gather(vector, indices): the vector's element at each index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, indices, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.scope import Scope as Text
from hipress.compll.frontend import syntax as s
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment
from hipress.compll.reference.operators import require_indices


@dataclass(frozen=True, kw_only=True)
class Gather(ir.Operator):
    vector: str
    indices: str

    def length(self) -> ir.Length:
        return ir.Like(self.indices)


def rule(node: s.Call, scope: Scope) -> Result:
    values, at = whole(node.arguments[0], scope), indices(node.arguments[1], scope)
    return bind(scope, "gathered", values.type.element, Gather(vector=values.name, indices=at.name, span=node.span))


def meaning(op: Gather, environment: Environment) -> NDArray[Any]:
    values, at = environment.vectors[op.vector], environment.vectors[op.indices]
    require_indices(at, len(values), "gather", environment)
    gathered: NDArray[Any] = values[at]
    return gathered


def _plan(planner: Planner, name: str, op: Gather) -> None:
    """Only the indices are put in memory, so that they can be checked before anything uses them."""
    planner.stored(op.indices)
    planner.check(op.indices, op.vector, "gather")


def _needs(of: NeedsOf, op: Gather) -> Needs:
    return of.element(op.indices) | of.indexed(op.vector)


def element(scope: Text, op: Gather) -> str:
    return scope.gathered(op.vector, op.indices)


def _since(planner: Planner, op: Gather) -> int:
    """With a scatter that replaces the same elements, so that one loop goes to each of these places in memory."""
    return planner.replaced.get((op.vector, op.indices), 0)


PLANNING = Planning(_plan, _needs, since=_since)
