# SPDX-License-Identifier: Apache-2.0
"""reduce_blocks(vector, initial, function, block): a reduction of each `block` successive elements.

The loop that computes the results goes from block to block, so the loops themselves emit most of it (emit/cpu/loop.py,
emit/cuda/blocks.py).
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.arguments import bind, block_size, whole
from hipress.compll.check.conversions import convert
from hipress.compll.check.expressions import scalar
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.steps import CpuSink
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.target import SinkLowering
from hipress.compll.frontend import syntax as s
from hipress.compll.operators.reduce import cpu_element, reducer
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference import reductions

meaning = reductions.reduce_blocks


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    function = reducer(node.arguments[2], values.type.element, scope)
    type_ = function.results[0].type
    init = convert(scope.unit, scalar(node.arguments[1], scope), type_, node.arguments[1].span)
    block = block_size(node.arguments[3], scope)
    value = ir.ReduceBlocks(vector=values.name, init=init, function=function, block=block, span=node.span)
    return bind(scope, "blocks", type_, value)


def _plan(planner: Planner, name: str, op: ir.ReduceBlocks) -> None:
    planner.count(name, op)
    # The initial value is one expression for all blocks.
    since = planner.time(planner.of().expr(op.init)) + 1
    planner.ready[Need("stored", name)] = planner.place(plan.BlocksTo(name, op), op.vector, op.block, since)


def _cuda_element(work: CudaPass, sink: plan.BlocksTo) -> None:
    raise AssertionError(sink)  # blocks_kernels() takes these sinks out of the loop


PLANNING = Planning(_plan)
CPU = CpuSink(cpu_element)
CUDA = SinkLowering(_cuda_element)
