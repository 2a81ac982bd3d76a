# SPDX-License-Identifier: Apache-2.0
"""scatter(base, indices, values): a copy of the base in which `values`, a vector or one scalar, stand at the indices.

The indices must increase: the result would depend on the order of writing if one occurred twice, and devices are free
to choose that order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, indices, whole
from hipress.compll.check.conversions import convert
from hipress.compll.check.expressions import lower, scalar
from hipress.compll.check.length_keys import shown
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope, VectorRef
from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.target import SinkLowering
from hipress.compll.emit.tile_pass import scattered_value
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, evaluate
from hipress.compll.reference.operators import refuse, require_indices


def rule(node: s.Call, scope: Scope) -> Result:
    unit = scope.unit
    base, at = whole(node.arguments[0], scope), indices(node.arguments[1], scope)
    written = lower(node.arguments[2], scope)
    span = node.arguments[2].span
    values: ir.Vec | ir.Expr
    if isinstance(written, VectorRef):
        if written.type.length != at.type.length:
            raise unit.error(
                span, f"sizes differ: {shown(written.type.length)} values for {shown(at.type.length)} indices"
            )
        if written.type.element != base.type.element:
            raise unit.error(span, f"{written.type.element} values cannot go into a vector of {base.type.element}")
        values = ir.Vec(vector=written.name, span=span)
    else:
        values = convert(unit, scalar(node.arguments[2], scope), base.type.element, span)
    value = ir.Scatter(base=base.name, indices=at.name, values=values, span=node.span)
    return bind(scope, "scattered", base.type.element, value)


def meaning(op: ir.Scatter, environment: Environment) -> NDArray[Any]:
    result: NDArray[Any] = environment.vectors[op.base].copy()
    at = environment.vectors[op.indices]
    require_indices(at, len(result), "scatter", environment)
    falls = np.flatnonzero(at[1:] <= at[:-1])
    if len(falls):
        place = int(falls[0])
        refuse(f"scatter: index {at[place + 1]} follows {at[place]}; indices must increase", environment)
    if isinstance(op.values, ir.Vec):
        result[at] = environment.vectors[op.values.vector]
    else:
        result[at] = evaluate(op.values, environment)
    return result


def _plan(planner: Planner, name: str, op: ir.Scatter) -> None:
    """A scatter whose only use is a new state, or the gradient over zeros, is written to that place directly."""
    planner.stored(op.indices)
    checked = planner.check(op.indices, op.base, "scatter", increasing=True)
    users = planner.uses.whole.get(name, [])
    place = plan.Place("buffer", name)
    only = len(users) == 1 and name not in planner.uses.by_rank
    if only and isinstance(users[0], ir.WriteState):
        place = plan.Place("state", users[0].state)
    elif only and isinstance(users[0], ir.WriteGradient) and planner.zeros(op.base):
        planner.scattered[name] = plan.Place("gradient")
        return
    base = planner.place(plan.StoreTo(op.base, place), op.base)
    sink = plan.ScatterTo(op.base, op.indices, op.values, place)
    time = planner.place(sink, op.indices, since=max(base, checked) + 1)
    planner.ready[Need("stored", name)] = time
    if place.kind == "state":
        planner.replaced[op.base, op.indices] = time
    planner.scattered[name] = place


PLANNING = Planning(_plan)


def _cpu_element(work: CpuPass, sink: plan.ScatterTo) -> None:
    index, value = scattered_value(work, sink)
    match sink.place.kind:
        case "gradient":
            work.tile.lines.append(f"float& place = f->output[{index}];")
            work.tile.lines.append(f"place = kAccumulate ? place + {value} : {value};")
        case "state":
            work.tile.gathered(sink.base, sink.indices)  # before it is replaced
            work.replaces(sink, f"f->after_{work.names(sink.place.name)}[{index}]", index, value)
        case _:
            work.tile.lines.append(f"f->v_{work.names(sink.place.name)}[{index}] = {value};")


def _cpu_before(steps: CpuSteps, sink: plan.ScatterTo, over: str) -> None:
    if sink.place.kind == "gradient":
        steps.lines.append("if (!kAccumulate) std::fill_n(f.output, f.n, 0.0f);")


CPU = CpuSink(_cpu_element, _cpu_before)


def _cuda_element(work: CudaPass, sink: plan.ScatterTo) -> None:
    index, value = scattered_value(work, sink)
    tile = work.tile
    match sink.place.kind:
        case "gradient":
            place = f"{tile.pointer('output')}[{index}]"
            tile.lines.append(f"{place} = kAccumulate ? {place} + {value} : {value};")
        case "state":
            after = tile.pointer(f"after_{work.names(sink.place.name)}")
            work.replaces(sink, f"{after}[{index}]", index, value)
        case _:
            tile.lines.append(f"{tile.pointer(f'v_{work.names(sink.place.name)}')}[{index}] = {value};")


def _cuda_before(steps: CudaSteps, sink: plan.ScatterTo, over: str) -> None:
    if sink.place.kind == "gradient":
        steps.kernel("if (!kAccumulate) cuda::fillAll(block, f->output, f->n, 0.0f);", "n")


CUDA = SinkLowering(_cuda_element, _cuda_before)
