# SPDX-License-Identifier: Apache-2.0
"""smallest_of_blocks(vector, key, count, block): the indices of the elements with the smallest keys of each block.

A block is `block` successive elements; `count` of them are taken. The indices are in ascending order. Of equal keys the
first ones are taken; elements with NaN keys come last.

A block is selected while its keys are in the first cache, in the loop that computes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.check.arguments import bind, block_size, count, function_for, single, whole
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.target import SinkLowering
from hipress.compll.emit.tile_pass import key_of
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, apply, evaluate


@dataclass(frozen=True, kw_only=True)
class SmallestOfBlocks(ir.Operator):
    """`each`: how many elements of a whole block are taken; `total`: how many of the vector."""

    vector: str
    key: ir.Lambda
    each: ir.Expr
    block: ir.Expr
    total: ir.Expr

    def length(self) -> ir.Length:
        return ir.Exactly(self.total)


@dataclass(frozen=True)
class SelectTo(plan.OperatorSink):
    op: SmallestOfBlocks


def rule(node: s.Call, scope: Scope) -> Result:
    values, unit = whole(node.arguments[0], scope), scope.unit
    key = single(function_for(node.arguments[1], scope, (values.type.element,)), node.arguments[1], scope)
    if key.results[0].type == ir.DOUBLE:
        raise unit.error(node.arguments[1].span, "these keys are float or integers, not double", "cast: (float) key")
    given, block = count(node.arguments[2], scope), block_size(node.arguments[3], scope)
    size = ir.Size(vector=values.name, type=ir.INT, span=node.span)
    at_least_one = _call("max", block, _number(1, node))
    each = _call("min", _call("max", given, _number(0, node)), at_least_one)
    # Of the last block, which may be shorter, as many as it has.
    in_whole_blocks = _binary("*", _binary("/", size, at_least_one), each)
    total = _binary("+", in_whole_blocks, _call("min", _binary("%", size, at_least_one), each))
    value = SmallestOfBlocks(vector=values.name, key=key, each=each, block=block, total=total, span=node.span)
    return bind(scope, "smallest", ir.INT, value)


def _number(value: int, node: s.Call) -> ir.Expr:
    return ir.Const(value=value, type=ir.INT, span=node.span)


def _call(function: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    return ir.Call(function=function, arguments=(left, right), type=ir.INT, span=left.span)


def _binary(operator: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    return ir.Binary(operator=operator, left=left, right=right, type=ir.INT, span=left.span)


def meaning(op: SmallestOfBlocks, environment: Environment) -> NDArray[Any]:
    values = environment.vectors[op.vector]
    block, each = max(1, int(evaluate(op.block, environment))), int(evaluate(op.each, environment))
    (keys,) = apply(op.key, (values,), environment, np.arange(len(values)))
    keys = np.broadcast_to(keys, values.shape)
    rest = len(values) % block
    whole = np.arange(0, len(values) - rest, block)[:, np.newaxis] + _smallest(keys[: len(values) - rest], block, each)
    last = len(values) - rest + _smallest(keys[len(values) - rest :], max(1, rest), each)
    return np.concatenate([whole.ravel(), last.ravel()]).astype(np.int32)


def _smallest(keys: NDArray[Any], block: int, each: int) -> NDArray[Any]:
    """A row for each block, all as long as `block`: the places in the block of its smallest keys, in order."""
    order: NDArray[Any] = np.argsort(keys.reshape(-1, block), axis=1, kind="stable")
    return np.sort(order[:, :each], axis=1)


def _plan(planner: Planner, name: str, op: SmallestOfBlocks) -> None:
    planner.count(name, op)
    since = planner.time(planner.of().expr(op.each) | planner.of().count(name)) + 1
    planner.ready[Need("stored", name)] = planner.place(SelectTo(name, op), op.vector, op.block, since)


PLANNING = Planning(_plan, increasing=lambda vectors, op: True)


# For processors: the loop over blocks keeps the keys of a block, and selects when it has all of them.


def _cpu_element(work: CpuPass, sink: SelectTo) -> None:
    op, tile, name = sink.op, work.tile, work.names(sink.name)
    each = tile.expr(op.each)
    tile.prologue[f"select_{name}"] = (
        f"ops::BlockSelect<level> select_{name}(std::min(size, end - begin), ops::asCount({each}));"
    )
    tile.before[f"keys_{name}"] = f"uint32_t* const keys_{name} = select_{name}.add(count);"
    tile.lines.append(f"keys_{name}[i] = {key_of(tile, op)};")


def _cpu_before(steps: CpuSteps, sink: SelectTo, over: str) -> None:
    steps.reserve(f"v_{steps.names(sink.name)}", "int32_t", steps.scope.count(sink.name))


def _cpu_block(work: CpuPass, sink: SelectTo) -> str:
    name = work.names(sink.name)
    ahead = [f"{when}select_{name}.readAhead({vector} + first + size);" for when, vector in work.memory()]
    finish = f"select_{name}.finish(first, f->v_{name} + block * select_{name}.each());"
    return "\n".join([*ahead, finish])


CPU = CpuSink(_cpu_element, _cpu_before, per_block=_cpu_block)


# For GPUs: a kernel stores the keys; in a second one, each thread block selects from one block after the other.


def _cuda_element(work: CudaPass, sink: SelectTo) -> None:
    key = key_of(work.tile, sink.op)
    work.tile.store(work.tile.pointer(f"k_{work.names(sink.name)}"), "uint32_t", key)


def _cuda_before(steps: CudaSteps, sink: SelectTo, over: str) -> None:
    name = steps.names(sink.name)
    steps.function.buffer(f"k_{name}", "uint32_t", steps.function.most(over))
    steps.function.buffer(f"v_{name}", "int32_t", steps.function.most(sink.name))


def _cuda_after(steps: CudaSteps, sink: SelectTo, over: str) -> None:
    name, op = steps.names(sink.name), sink.op
    steps.function.member(f"b_{name}", "size_t", " = 1")
    steps.function.member(f"e_{name}", "size_t", " = 0")
    block, each = steps.text(op.block), steps.text(op.each)
    steps.lines += [
        f"f.b_{name} = static_cast<size_t>(ops::atLeastOne({block}));",
        f"f.e_{name} = ops::asCount({each});",
    ]
    steps.settle()
    steps.kernel(
        f"cuda::selectOfBlocks(block, f->k_{name}, {steps.counted(over)}, f->b_{name}, f->e_{name}, f->v_{name});",
        steps.function.most(over),
    )


CUDA = SinkLowering(_cuda_element, _cuda_before, _cuda_after)
