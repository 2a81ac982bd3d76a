# SPDX-License-Identifier: Apache-2.0
"""prefix_sum(vector) and prefix_max(vector): element i combines the vector's elements up to element i, itself included.

The elements are integers, so the order of the combinations does not matter: threads combine parts of the vector at the
same time, and each part then gets the combination of all parts before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.target import SinkLowering
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment

_HINTS = {
    "prefix_sum": "a sum of floats depends on the order of the additions, which differs between devices; "
    "map the elements to integers first",
    "prefix_max": "map the elements to integers first; bitcast<int>(x) keeps the order of floats that are not negative",
}


@dataclass(frozen=True, kw_only=True)
class Prefix(ir.Operator):
    vector: str
    greatest: bool
    """Whether the elements' maximum is computed, and not their sum."""

    def length(self) -> ir.Length:
        return ir.Like(self.vector)


@dataclass(frozen=True)
class PrefixTo(plan.OperatorSink):
    op: Prefix


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    if values.type.element.kind not in ("bool", "uint", "int"):
        text = f"{node.name} takes integers, these are {values.type.element}"
        raise scope.unit.error(node.arguments[0].span, text, _HINTS[node.name])
    value = Prefix(vector=values.name, greatest=node.name == "prefix_max", span=node.span)
    return bind(scope, "prefix", ir.INT, value)


def meaning(op: Prefix, environment: Environment) -> NDArray[Any]:
    combine = np.maximum if op.greatest else np.add
    combined: NDArray[Any] = combine.accumulate(environment.vectors[op.vector].astype(np.int32), dtype=np.int32)
    return combined


def _plan(planner: Planner, name: str, op: Prefix) -> None:
    planner.ready[Need("stored", name)] = planner.place(PrefixTo(name, op), op.vector)


PLANNING = Planning(_plan)


def _combine(op: Prefix) -> str:
    return "ops::PrefixMax" if op.greatest else "ops::PrefixSum"


# For processors: a thread combines the elements of its chunk; then each chunk gets the combination of those before it.


def _cpu_element(work: CpuPass, sink: PrefixTo) -> None:
    name, combine = work.names(sink.name), _combine(sink.op)
    values = work.array(work.storable(sink.op.vector), "int32_t")
    work.function.member(f"a_{name}", f"ops::Prefixes<{combine}>")
    work.function.member(f"v_{name}", "int32_t*", " = nullptr")
    work.tile.prologue[f"a_{name}"] = f"auto& a_{name} = f->a_{name}.chunk(chunk, begin, end);"
    work.after.append(f"a_{name}.combine({values}, count, f->v_{name} + tile);")


def _cpu_before(steps: CpuSteps, sink: PrefixTo, over: str) -> None:
    steps.reserve(f"v_{steps.names(sink.name)}", "int32_t", steps.scope.count(over))


def _cpu_chunks(steps: CpuSteps, sink: PrefixTo) -> str:
    return f"f.a_{steps.names(sink.name)}.resize(chunks.count());"


def _cpu_after(steps: CpuSteps, sink: PrefixTo, over: str) -> None:
    name = steps.names(sink.name)
    steps.lines.append(f"f.a_{name}.join(f.parallel, f.v_{name});")


CPU = CpuSink(_cpu_element, _cpu_before, _cpu_after, per_chunk=_cpu_chunks)


# For GPUs: the same with tiles in place of chunks, and a second kernel for what each tile gets.


def _cuda_element(work: CudaPass, sink: PrefixTo) -> None:
    name = work.names(sink.name)
    values, totals = work.tile.pointer(f"v_{name}"), work.tile.pointer(f"y_{name}")
    staged = work.stage(sink.op.vector)
    work.after.append(f"cuda::prefixTile<{_combine(sink.op)}>(block, {staged}, count, tile, {values}, {totals});")


def _cuda_before(steps: CudaSteps, sink: PrefixTo, over: str) -> None:
    function, name, most = steps.function, steps.names(sink.name), steps.function.most(over)
    function.buffer(f"y_{name}", "int32_t", f"cuda::tileCounts({most})")
    function.buffer(f"v_{name}", "int32_t", most)


def _cuda_after(steps: CudaSteps, sink: PrefixTo, over: str) -> None:
    name, count, combine = steps.names(sink.name), steps.counted(over), _combine(sink.op)
    tiles = f"({count} + cuda::kTile - 1) / cuda::kTile"
    steps.one_block(f"cuda::scanBefore<{combine}>(block, f->y_{name}, {tiles});")
    steps.kernel(f"cuda::joinTiles<{combine}>(block, f->v_{name}, {count}, f->y_{name});", steps.function.most(over))


CUDA = SinkLowering(_cuda_element, _cuda_before, _cuda_after)
