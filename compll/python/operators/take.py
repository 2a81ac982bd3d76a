# SPDX-License-Identifier: Apache-2.0
"""take(vector, count): the first `count` elements, or all if there are fewer.

The first elements of a sorted vector are selected, which is less work than to sort them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, count, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.scope import Scope as Text
from hipress.compll.frontend import syntax as s
from hipress.compll.operators.sort import order
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need, Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.passes.vectors import Stored, Vectors, identity
from hipress.compll.reference.evaluate import Environment, evaluate


def rule(node: s.Call, scope: Scope) -> Result:
    values, number = whole(node.arguments[0], scope), count(node.arguments[1], scope)
    return bind(scope, "taken", values.type.element, ir.Take(vector=values.name, count=number, span=node.span))


def meaning(op: ir.Take, environment: Environment) -> NDArray[Any]:
    first: NDArray[Any] = environment.vectors[op.vector][: max(0, int(evaluate(op.count, environment)))]
    return first


def _plan(planner: Planner, name: str, op: ir.Take) -> None:
    of, vectors = planner.of(), planner.vectors
    sort = vectors.sorted(op.vector)
    if sort is None:
        planner.count(name, op)
        return
    needs = of.expr(op.count)
    if Need("stored", op.vector) in planner.ready:  # the sorted vector has other uses, too
        needs |= of.element(op.vector) | of.count(op.vector)
        step = plan.Order(name, op.vector, "take", op.count)
        planner.after(needs, step, Need("stored", name), Need("count", name))
        return
    users = planner.uses.whole.get(name, [])
    resorted = [
        user for user in users if isinstance(user, ir.Sort) and identity(user.key) and vectors.increasing(sort.vector)
    ]
    only = len(resorted) == len(users) == 1 and name not in planner.uses.by_rank
    order(planner, name, sort, "set" if only else "take", op.count, needs | of.count(sort.vector))
    if only:
        # The elements are chosen in their old order, which is the order that the second sort gives.
        definition = vectors.definitions[name]
        assert isinstance(definition, Stored)
        chosen = ir.Filter(vector=sort.vector, predicate=sort.key, span=sort.span)
        vectors.definitions[name] = replace(definition, op=chosen)


def _needs(of: NeedsOf, op: ir.Take) -> Needs:
    return of.indexed(op.vector)


def _of_sorted(vectors: Vectors, op: ir.Take) -> bool:
    return vectors.sorted(op.vector) is not None


def _increasing(vectors: Vectors, op: ir.Take) -> bool:
    return not _of_sorted(vectors, op) and vectors.increasing(op.vector)


def _distinct(vectors: Vectors, op: ir.Take) -> bool:
    return _of_sorted(vectors, op) and vectors.distinct(op.vector)


def element(scope: Text, op: ir.Take) -> str:
    return scope.at(op.vector, scope.position())


PLANNING = Planning(_plan, _needs, in_memory=_of_sorted, increasing=_increasing, distinct=_distinct)
