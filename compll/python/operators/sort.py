# SPDX-License-Identifier: Apache-2.0
"""sort(vector, key): the elements in ascending order of the key; stable, elements with NaN keys last.

A loop computes the keys. The step plan.Order then sorts as far as the program needs it: sometimes only single elements,
or the set of the smallest elements.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, function_for, single, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.target import SinkLowering
from hipress.compll.emit.tile_pass import key_of, key_type
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need, Needs
from hipress.compll.passes.operators import Planning
from hipress.compll.passes.vectors import Vectors, identity
from hipress.compll.reference.evaluate import Environment, apply

Mode = Literal["rank", "all", "take", "set"]


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    key = single(function_for(node.arguments[1], scope, (values.type.element,)), node.arguments[1], scope)
    return bind(scope, "sorted", values.type.element, ir.Sort(vector=values.name, key=key, span=node.span))


def meaning(op: ir.Sort, environment: Environment) -> NDArray[Any]:
    values = environment.vectors[op.vector]
    (keys,) = apply(op.key, (values,), environment, np.arange(len(values)))
    ordered: NDArray[Any] = values[np.argsort(np.broadcast_to(keys, values.shape), kind="stable")]
    return ordered


def _already(vectors: Vectors, op: ir.Sort) -> bool:
    """Whether the vector is in the order of the keys as it is."""
    return identity(op.key) and vectors.increasing(op.vector)


def _plan(planner: Planner, name: str, op: ir.Sort) -> None:
    users = planner.uses.whole.get(name, [])
    takes = [user for user in users if isinstance(user, ir.Take)]
    mode: Mode = "all"
    if not _already(planner.vectors, op):
        if not users:
            mode = "rank"
        elif len(takes) == len(users) == 1 and name not in planner.uses.by_rank:
            return  # take selects the elements
    order(planner, name, op, mode, None, planner.of().count(op.vector))


def order(planner: Planner, name: str, op: ir.Sort, mode: Mode, count: ir.Expr | None, needs: Needs) -> None:
    """Adds the loop that computes the keys, unless the vector is sorted already, and the step that uses them."""
    needs |= planner.of().indexed(op.vector)
    if not _already(planner.vectors, op):
        keys = Need("stored", f"keys:{name}")
        planner.ready[keys] = planner.place(plan.KeysTo(name, op), op.vector)
        needs |= {keys}
    gives = [Need("stored", name)] + ([Need("count", name)] if mode in ("take", "set") else [])
    planner.after(needs, plan.Order(name, op.vector, mode, count), *gives)


def _increasing(vectors: Vectors, op: ir.Sort) -> bool:
    return identity(op.key) and vectors.distinct(op.vector)


def _distinct(vectors: Vectors, op: ir.Sort) -> bool:
    return vectors.distinct(op.vector)


PLANNING = Planning(_plan, increasing=_increasing, distinct=_distinct)


def _cpu_element(work: CpuPass, sink: plan.KeysTo) -> None:
    tile, key, type_ = work.tile, key_of(work, sink.op), key_type(sink.op)
    member = work.function.member(f"k_{work.names(sink.name)}", f"{type_}*", " = nullptr")
    tile.before[member] = f"{type_}* const {member} = f->{member} + tile;"
    tile.lines.append(f"{member}[i] = {key};")


def _cpu_before(steps: CpuSteps, sink: plan.KeysTo, over: str) -> None:
    steps.reserve(f"k_{steps.names(sink.name)}", key_type(sink.op), steps.scope.count(over))


CPU = CpuSink(_cpu_element, _cpu_before)


def _cuda_element(work: CudaPass, sink: plan.KeysTo) -> None:
    key = key_of(work, sink.op)
    work.tile.lines.append(f"{work.tile.pointer(f'k_{work.names(sink.name)}')}[i] = {key};")


def _cuda_before(steps: CudaSteps, sink: plan.KeysTo, over: str) -> None:
    steps.function.buffer(f"k_{steps.names(sink.name)}", key_type(sink.op), steps.function.most(over))


CUDA = SinkLowering(_cuda_element, _cuda_before)
