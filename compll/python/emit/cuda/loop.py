# SPDX-License-Identifier: Apache-2.0
"""A loop of the plan as a CUDA kernel: thread blocks take tile after tile, a thread computes some elements of each.

Packing, lanes of reductions and filters need an element's neighbours, too: they find the tile's values in shared
memory, and functions of core/ops/cuda do their work. A block-wise loop is three kernels, because blocks may be too
long for one thread block's memory, and too few for a whole GPU. The first kernel reduces the blocks (blocks.py), the
second computes values that a block has once, the third computes the elements that use them. Short blocks may need one
kernel only (one_pass.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll import ir
from hipress.compll.emit.cuda.blocks import single_elements
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.lanes import Reduction, lanes_kernel
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.scope import c_type
from hipress.compll.emit.text import indented
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Mapped


def plain_kernel(function: CudaFunction, loop: plan.Loop, sinks: Sequence[plan.Sink], computed: set[str]) -> str:
    """The body of a kernel that takes the tiles of a vector; see CudaSteps.kernel."""
    before = function.gradient_checked
    work, length = _begun(function, loop, sinks, computed)
    if work.reduces:
        if single_elements([sink for sink in sinks if not isinstance(sink, plan.ReduceTo)], function):
            kernel = lanes_kernel(
                work, [_reduction(work, sink) for sink in work.reduces], f"{length}, ops::kReduceBlock"
            )
            if kernel is not None:
                return kernel
            function.gradient_checked = before
            work, length = _begun(function, loop, sinks, computed)
        body = _reducing(work)
    else:
        body = (
            f"for (size_t tile = block.index * cuda::kTile; tile < {length}; tile += block.count * cuda::kTile) {{\n"
            f"  [[maybe_unused]] const unsigned count = cuda::tileCount(tile, {length});\n"
            f"{indented(work.text(), 2)}\n}}"
        )
    return "\n".join([work.opening(), body, *([work.closing()] if work.bad else [])])


def _begun(
    function: CudaFunction, loop: plan.Loop, sinks: Sequence[plan.Sink], computed: set[str]
) -> tuple[CudaPass, str]:
    """The pass for the elements, and the number of elements."""
    work = CudaPass(function, loop, computed)
    work.add(sinks)
    return work, work.tile.copied(work.tile.count(loop.vector), "length")


def _reduction(work: CudaPass, sink: plan.ReduceTo) -> Reduction:
    name, type_ = work.names(sink.name), c_type(sink.op.function.parameters[0][1])
    combine = f"{work.function.combine(sink.op)}{{f}}"
    return Reduction(name, type_, combine, sink.op.vector, f"{work.tile.pointer(f'r_{name}')}[unit] = $result;")


def _reducing(work: CudaPass) -> str:
    """The loop for reductions of the whole vector: thread blocks take one block of the reduction after the other."""
    finish = []
    for number, sink in enumerate(work.reduces):
        name, type_ = work.names(sink.name), c_type(sink.op.function.parameters[0][1])
        combine = f"{work.function.combine(sink.op)}{{f}}"
        work.tile.shared[f"lanes_{name}"] = f"HIPRESS_SHARED {type_} lanes_{name}[ops::kLanes];"
        staged = work.stage(sink.op.vector)
        partials = work.tile.pointer(f"r_{name}")
        work.after.append(
            f"cuda::feedLanes<{number % 8}>(block, {staged}, count, tile == first, lanes_{name}, {combine});"
        )
        finish.append(
            f"  {partials}[first / ops::kReduceBlock] = cuda::finishLanes(lanes_{name}, last - first, {combine});"
        )
    return "\n".join(
        [
            "for (size_t first = block.index * ops::kReduceBlock; first < length;",
            "     first += block.count * ops::kReduceBlock) {",
            "  const size_t last = cuda::atMost(first + ops::kReduceBlock, length);",
            "  for (size_t tile = first; tile < last; tile += cuda::kTile) {",
            "    const unsigned count = cuda::tileCount(tile, last);",
            indented(work.text(), 4),
            "  }",
            "  block.once([&] {",
            *(f"  {line}" for line in finish),
            "  });",
            "  block.sync();",
            "}",
        ]
    )


def spread_vectors(function: CudaFunction, sinks: Sequence[plan.Sink], block: ir.Expr) -> list[str]:
    """Maps that the sinks use spread by `block`. It is less work to compute them once for a block."""
    found: list[str] = []
    seen: set[str] = set()

    def visit(vector: str) -> None:
        definition = function.vectors.definitions[vector]
        if vector in seen or not isinstance(definition, Mapped):
            return
        seen.add(vector)
        for access in definition.op.inputs:
            if isinstance(access, ir.Vec):
                visit(access.vector)
            elif access.block == block and isinstance(function.vectors.definitions[access.vector], Mapped):
                found.append(access.vector)

    for sink in sinks:
        match sink:
            case plan.StoreTo(vector=vector) | plan.ScatterTo(values=ir.Vec(vector=vector)):
                visit(vector)
            case plan.OperatorSink(op=op):
                visit(op.vector)
    return list(dict.fromkeys(found))
