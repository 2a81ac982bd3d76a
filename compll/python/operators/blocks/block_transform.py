# SPDX-License-Identifier: Apache-2.0
"""What operators share that replace each block of a vector by a linear map of the block.

A last block with fewer elements stays as it is. So an orthogonal map stays one, and the result is as long as the
vector. The map of a block is computed while the block is in the first cache, in the loop that computes its elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import whole
from hipress.compll.check.scope import Scope, VectorRef
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
from hipress.compll.passes.vectors import Vectors


@dataclass(frozen=True, kw_only=True)
class BlockTransform(ir.Operator):
    """`block`: the number of elements of a block, which is a constant."""

    vector: str
    block: ir.Const

    def length(self) -> ir.Length:
        return ir.Like(self.vector)


def floats(node: s.Call, scope: Scope) -> VectorRef:
    """The first argument, which must be a vector of floats."""
    values = whole(node.arguments[0], scope)
    if values.type.element != ir.FLOAT:
        argument, element = node.arguments[0], values.type.element
        hint = f"convert them: map(v, [&]({element} x) -> float {{ return x; }})"
        raise scope.unit.error(argument.span, f"'{node.name}' takes floats, these are {element}", hint)
    return values


def by_blocks(
    values: NDArray[Any], size: int, function: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> NDArray[Any]:
    """`function` for an array of all whole blocks, shape (blocks, size), float32; a short last block as it is."""
    whole = len(values) // size * size
    mapped = function(values[:whole].reshape(-1, size))
    return np.concatenate([mapped.reshape(-1), values[whole:]]).astype(np.float32)


def planned(sink: Callable[[str, Any], plan.OperatorSink]) -> Planning:
    """The planning of an operator with this sink."""

    def plan_(planner: Planner, name: str, op: BlockTransform) -> None:
        planner.ready[Need("stored", name)] = planner.place(sink(name, op), op.vector, op.block)

    return Planning(plan_)


def on_cpu(kind: str, argument: Callable[[Vectors, Any, str], tuple[str, str]]) -> CpuSink:
    """`kind` is a class of core/ops/cpu/blocks/block_transform.h; `argument` gives a declaration that the class needs,
    and the argument of its constructor."""

    def element(work: CpuPass, sink: Any) -> None:
        tile, name, size = work.tile, work.names(sink.name), sink.op.block.value
        declaration, given = argument(work.vectors, sink.op, name)
        made = f"ops::{kind}<level, {size}> blocks_{name}({given});"
        tile.prologue[f"blocks_{name}"] = f"{declaration}\n{made}" if declaration else made
        array = work.array(tile.element(sink.op.vector), "float")
        work.after.append(f"blocks_{name}.add({array}, count);")
        if sink.name in work.function.of_one_block:
            tile.prologue[f"block_{name}"] = f"alignas(64) float block_{name}[{size}];"
        else:
            work.function.member(f"v_{name}", "float*", " = nullptr")

    def before(steps: CpuSteps, sink: Any, over: str) -> None:
        if sink.name not in steps.function.of_one_block:
            steps.reserve(f"v_{steps.names(sink.name)}", "float", steps.scope.count(over))

    def per_block(work: CpuPass, sink: Any) -> str:
        name = work.names(sink.name)
        kept = sink.name in work.function.of_one_block
        return f"blocks_{name}.finish({f'block_{name}' if kept else f'f->v_{name} + first'});"

    return CpuSink(element, before, per_block=per_block)


def on_cuda(kernel: Callable[[Vectors, Any, str], tuple[str, str, str]]) -> SinkLowering:
    """A kernel stores the elements; `kernel` is (a declaration, a function of core/ops/cuda/block_transform.h, its
    arguments between the vector's length and the result) of a second kernel."""

    def element(work: CudaPass, sink: Any) -> None:
        tile = work.tile
        value = tile.element(sink.op.vector)
        tile.store(tile.pointer(f"x_{work.names(sink.name)}"), "float", value)

    def before(steps: CudaSteps, sink: Any, over: str) -> None:
        name, most = steps.names(sink.name), steps.function.most(over)
        steps.function.buffer(f"x_{name}", "float", most)
        steps.function.buffer(f"v_{name}", "float", most)

    def after(steps: CudaSteps, sink: Any, over: str) -> None:
        name = steps.names(sink.name)
        declaration, function, arguments = kernel(steps.vectors, sink.op, name)
        call = f"cuda::{function}(block, f->x_{name}, {steps.counted(over)}, {arguments}, f->v_{name});"
        steps.kernel(f"{declaration}\n{call}" if declaration else call, steps.function.most(over))

    return SinkLowering(element, before, after)
