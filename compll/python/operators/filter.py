# SPDX-License-Identifier: Apache-2.0
"""filter(vector, condition): the elements for which the condition holds, in order."""

from __future__ import annotations

from typing import Any

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
from hipress.compll.emit.scope import stored_type
from hipress.compll.emit.target import SinkLowering
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, apply


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    predicate = single(function_for(node.arguments[1], scope, (values.type.element,)), node.arguments[1], scope)
    result = predicate.results[0].type
    if result.kind not in ("bool", "uint", "int"):
        raise scope.unit.error(node.arguments[1].span, f"a filter's function gives bool, this one gives {result}")
    value = ir.Filter(vector=values.name, predicate=predicate, span=node.span)
    return bind(scope, "kept", values.type.element, value)


def meaning(op: ir.Filter, environment: Environment) -> NDArray[Any]:
    values = environment.vectors[op.vector]
    (kept,) = apply(op.predicate, (values,), environment, np.arange(len(values)))
    chosen: NDArray[Any] = values[np.broadcast_to(np.asarray(kept) != 0, values.shape)]
    return chosen


def _plan(planner: Planner, name: str, op: ir.Filter) -> None:
    time = planner.place(plan.FilterTo(name, op), op.vector)
    planner.ready[Need("stored", name)] = planner.ready[Need("count", name)] = time


PLANNING = Planning(_plan, increasing=lambda vectors, op: vectors.increasing(op.vector))


# For processors: each thread appends the elements that it keeps, and the threads' parts are joined at the end.


def _cpu_element(work: CpuPass, sink: plan.FilterTo) -> None:
    op, tile, name = sink.op, work.tile, work.names(sink.name)
    value = tile.element(op.vector)
    (kept,) = tile.call(op.predicate, [value], [work.vectors.element(op.vector)])
    keep = work.array(tile.variable("int32_t", f"{kept} != 0 ? 1 : 0"), "int32_t")
    type_ = stored_type(work.vectors.element(sink.name))
    work.function.member(f"a_{name}", f"ops::FilterOutputs<{type_}>")
    work.function.member(f"v_{name}", f"{type_}*", " = nullptr")
    tile.prologue[f"a_{name}"] = f"ops::Appender<{type_}>& a_{name} = f->a_{name}[chunk];"
    room = f"a_{name}.reserve(count + 16)"
    if value == tile.position():
        compact = f"compactIndices<level>({keep}, count, static_cast<int32_t>(tile), {room})"
    else:
        values = work.array(work.storable(op.vector), type_)
        compact = f"compactValues<level>({keep}, {values}, count, {room})"
    work.after.append(f"a_{name}.added({compact});")


def _cpu_chunks(steps: CpuSteps, sink: plan.FilterTo) -> str:
    return f"f.a_{steps.names(sink.name)}.resize(chunks.count(), chunks.each());"


def _cpu_after(steps: CpuSteps, sink: plan.FilterTo, over: str) -> None:
    name = steps.names(sink.name)
    steps.lines.append(f"f.v_{name} = f.a_{name}.gathered(f.scratch, f.{steps.counter(sink.name)});")


CPU = CpuSink(_cpu_element, after=_cpu_after, per_chunk=_cpu_chunks)


# For GPUs: the kernel makes a bit mask and counts; once the counts are added up, a second kernel moves the elements.


def _cuda_element(work: CudaPass, sink: plan.FilterTo) -> None:
    op, tile, name = sink.op, work.tile, work.names(sink.name)
    value = tile.element(op.vector)
    (kept,) = tile.call(op.predicate, [value], [work.vectors.element(op.vector)])
    keep = work.array(tile.variable("bool", f"{kept} != 0"), "uint8_t")
    mask, counts = tile.pointer(f"m_{name}"), tile.pointer(f"y_{name}")
    work.after.append(f"cuda::maskTile(block, {keep}, count, tile, {mask}, {counts});")


def _cuda_before(steps: CudaSteps, sink: plan.FilterTo, over: str) -> None:
    function, name, most = steps.function, steps.names(sink.name), steps.function.most(over)
    steps.counter(sink.name)
    function.buffer(f"m_{name}", "uint32_t", f"cuda::maskWords({most})")
    function.buffer(f"y_{name}", "uint32_t", f"cuda::tileCounts({most})")
    function.buffer(f"v_{name}", stored_type(steps.vectors.element(sink.name)), function.most(sink.name))


def _cuda_after(steps: CudaSteps, sink: plan.FilterTo, over: str) -> None:
    name, count = steps.names(sink.name), steps.counted(over)
    tiles = f"({count} + cuda::kTile - 1) / cuda::kTile"
    steps.one_block(f"cuda::scanCounts(block, f->y_{name}, {tiles}, &f->n_{name});")
    at = steps.at(sink.op.vector, "static_cast<int32_t>(i)")
    steps.kernel(
        f"cuda::compact(block, f->m_{name}, f->y_{name}, {count},\n"
        f"              [&](size_t place, size_t i) {{ f->v_{name}[place] = {at}; }});",
        steps.function.most(over),
    )


CUDA = SinkLowering(_cuda_element, _cuda_before, _cuda_after)
