# SPDX-License-Identifier: Apache-2.0
"""pack_blocks(codes, widths, block): the codes as words of 32 bits, each block of them in a width of its own.

A width is 0 to 8 bits; a greater or smaller number becomes the nearest of these, and a code that does not fit becomes
the greatest code that does. A block begins with a new word, low bits first. unpack_blocks is the inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check import length_keys
from hipress.compll.check.arguments import bind, block_size, whole
from hipress.compll.check.operators import Result
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
from hipress.compll.reference.evaluate import Environment, evaluate
from hipress.compll.reference.message import pack

#: The greatest width of a code.
MOST_BITS = 8


@dataclass(frozen=True, kw_only=True)
class PackBlocks(ir.Operator):
    """`vector` has the codes."""

    vector: str
    widths: str
    block: ir.Expr

    def length(self) -> ir.Length:
        return ir.AtMost(self.vector)


@dataclass(frozen=True)
class PackTo(plan.OperatorSink):
    op: PackBlocks


def rule(node: s.Call, scope: Scope) -> Result:
    codes, block = whole(node.arguments[0], scope), block_size(node.arguments[2], scope)
    element = codes.type.element
    if element.kind != "uint" or not element.packed or element.wide:
        raise scope.unit.error(node.arguments[0].span, f"codes are uint1 to uint8, these are {element}")
    widths = widths_of(node.arguments[1], codes.type.length, block, scope)
    value = PackBlocks(vector=codes.name, widths=widths.name, block=block, span=node.span)
    return bind(scope, "packed", ir.INT, value)


def widths_of(argument: s.Expression, length: str, block: ir.Expr, scope: Scope) -> VectorRef:
    """The widths of the blocks of `length` codes, one for each block."""
    widths, unit = whole(argument, scope), scope.unit
    if widths.type.element != ir.INT:
        raise unit.error(argument.span, f"widths are int32, these are {widths.type.element}")
    expected = length_keys.blocks(length, unit.key(block))
    if widths.type.length != expected:
        found = length_keys.shown(widths.type.length)
        raise unit.error(
            argument.span,
            f"there must be a width for each block: {length_keys.shown(expected)} of them, not {found}",
        )
    return widths


def meaning(op: PackBlocks, environment: Environment) -> NDArray[Any]:
    codes, block = environment.vectors[op.vector], max(1, int(evaluate(op.block, environment)))
    widths = np.clip(environment.vectors[op.widths], 0, MOST_BITS).tolist()
    parts = []
    for number, width in enumerate(widths):
        fitting = np.minimum(codes[number * block : (number + 1) * block], (1 << width) - 1)
        data = pack(fitting, width) if width else b""
        parts.append(np.frombuffer(data + b"\0" * (-len(data) % 4), "<i4"))
    return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)


def _plan(planner: Planner, name: str, op: PackBlocks) -> None:
    planner.stored(op.widths)
    of = planner.of()
    size = ir.Size(vector=op.vector, type=ir.INT, span=op.span)
    needs = frozenset((Need("stored", op.widths),)) | of.expr(op.block) | of.count(op.vector) | of.count(op.widths)
    starts = planner.after(needs, plan.Starts(name, op.widths, size, op.block), Need("count", name))
    since = max(starts, planner.time(of.element(op.vector))) + 1
    planner.ready[Need("stored", name)] = planner.place_by_block(PackTo(name, op), op.vector, op.block, since)


PLANNING = Planning(_plan)


# For processors: the loop over blocks packs a tile of a block at a time.


def _cpu_element(work: CpuPass, sink: PackTo) -> None:
    name, widths = work.names(sink.name), work.names(sink.op.widths)
    codes = work.array(work.tile.element(sink.op.vector), "uint8_t")
    work.after.append(
        f"packTileOfBlock<level>({codes}, tile - first, count, f->v_{widths}[block],\n"
        f"                       f->v_{name} + f->g_{name}[block]);"
    )


def _cpu_before(steps: CpuSteps, sink: PackTo, over: str) -> None:
    steps.reserve(f"v_{steps.names(sink.name)}", "int32_t", steps.scope.count(sink.name))


CPU = CpuSink(_cpu_element, _cpu_before)


# For GPUs: a kernel stores the codes, a second one makes the words.


def _cuda_element(work: CudaPass, sink: PackTo) -> None:
    code = work.tile.element(sink.op.vector)
    work.tile.store(work.tile.pointer(f"k_{work.names(sink.name)}"), "uint8_t", f"static_cast<uint8_t>({code})")


def _cuda_before(steps: CudaSteps, sink: PackTo, over: str) -> None:
    name = steps.names(sink.name)
    steps.function.buffer(f"k_{name}", "uint8_t", steps.function.most(over))
    steps.function.buffer(f"v_{name}", "int32_t", steps.function.most(sink.name))


def _cuda_after(steps: CudaSteps, sink: PackTo, over: str) -> None:
    name, widths = steps.names(sink.name), steps.names(sink.op.widths)
    steps.kernel(
        f"cuda::packBlocks(block, f->k_{name}, {steps.counted(over)}, f->b_{name}, f->v_{widths}, f->g_{name},\n"
        f"                 f->v_{name});",
        steps.function.most(over),
    )


CUDA = SinkLowering(_cuda_element, _cuda_before, _cuda_after)
