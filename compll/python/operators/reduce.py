# SPDX-License-Identifier: Apache-2.0
"""reduce(vector, initial, function): one value of a whole vector. reference/reductions.py defines the order."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.check.arguments import function_for, single, whole
from hipress.compll.check.conversions import convert
from hipress.compll.check.expressions import scalar
from hipress.compll.check.operators import Result
from hipress.compll.check.scope import Scope
from hipress.compll.emit.cpu.reducers import VECTOR_FUNCTORS, combiner, functor
from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.target import SinkLowering
from hipress.compll.frontend import syntax as s
from hipress.compll.passes import plan
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need
from hipress.compll.passes.operators import Planning
from hipress.compll.reference import reductions

meaning = reductions.reduce


def reducer(argument: s.Expression, element: ir.Scalar, scope: Scope) -> ir.Lambda:
    """The function that combines two elements."""
    sites = scope.unit.sites
    called = function_for(argument, scope, (element, element))
    function = single(called, argument, scope)
    if scope.unit.sites != sites:
        raise scope.unit.error(
            argument.span, "a reduction cannot use random numbers", "the function must depend on its arguments only"
        )
    types = {type_ for _, type_ in function.parameters} | {function.results[0].type}
    if len(types) != 1:
        raise scope.unit.error(argument.span, "a reduction takes two values of one type and gives that type")
    return function


def rule(node: s.Call, scope: Scope) -> Result:
    values = whole(node.arguments[0], scope)
    function = reducer(node.arguments[2], values.type.element, scope)
    type_ = function.results[0].type
    init = convert(scope.unit, scalar(node.arguments[1], scope), type_, node.arguments[1].span)
    value = ir.Reduce(vector=values.name, init=init, function=function, span=node.span)
    return ir.Var(name=scope.let("reduced", type_, value, node.span), type=type_, span=node.span)


def _plan(planner: Planner, name: str, op: ir.Reduce) -> None:
    time = planner.place(plan.ReduceTo(name, op), op.vector)
    planner.ready[Need("scalar", name)] = max(time, planner.time(planner.of().expr(op.init)))


PLANNING = Planning(_plan)


# For processors: each block of kReduceBlock elements gives a partial result, and these are reduced at the end.


def cpu_element(work: CpuPass, sink: plan.ReduceTo | plan.BlocksTo) -> None:
    """Reductions that core/ops/cpu has vector code for stay in registers."""
    type_, combine = combiner(work.function, sink.op)
    stored = stored_type(work.vectors.element(sink.op.vector))
    in_registers = combine in VECTOR_FUNCTORS and type_ == stored in ("float", "double", "int32_t")
    value = work.storable(sink.op.vector)
    work.reduce(f"reduce_{work.names(sink.name)}", value, stored, in_registers=in_registers)


def _cpu_before(steps: CpuSteps, sink: plan.ReduceTo, over: str) -> None:
    type_ = c_type(sink.op.function.parameters[0][1])
    steps.reserve(f"r_{steps.names(sink.name)}", type_, f"{steps.scope.count(over)} / ops::kReduceBlock + 1")


def _cpu_after(steps: CpuSteps, sink: plan.ReduceTo, over: str) -> None:
    op, count = sink.op, steps.scope.count(over)
    combine = functor(combiner(steps.function, op)[1], "&f")
    scalar = steps.function.scalar(sink.name, op.function.results[0].type)
    partials = f"f.r_{steps.names(sink.name)}, ops::blockCount({count}, ops::kReduceBlock)"
    steps.lines += [
        f"f.{scalar} = {steps.text(op.init)};",
        f"if ({count} != 0) f.{scalar} = {combine}(f.{scalar}, ops::reducePartials({partials}, {combine}));",
    ]


CPU = CpuSink(cpu_element, _cpu_before, _cpu_after)


# For GPUs: the same, and the last thread block of the kernel reduces the partial results.


def _cuda_element(work: CudaPass, sink: plan.ReduceTo) -> None:
    work.stage(sink.op.vector)
    work.reduces.append(sink)


def _cuda_before(steps: CudaSteps, sink: plan.ReduceTo, over: str) -> None:
    type_ = c_type(sink.op.function.parameters[0][1])
    most = steps.function.most(over)
    steps.function.buffer(f"r_{steps.names(sink.name)}", type_, f"{most} / ops::kReduceBlock + 1")


def _cuda_after(steps: CudaSteps, sink: plan.ReduceTo, over: str) -> None:
    op, combine, partials = sink.op, steps.function.combine(sink.op), f"r_{steps.names(sink.name)}"
    blocks = f"ops::blockCount({steps.counted(over)}, ops::kReduceBlock)"
    steps.one_block(f"cuda::reducePartials(block, f->{partials}, {blocks}, {combine}{{f}});")
    scalar = steps.function.scalar(sink.name, op.function.results[0].type)
    steps.lines += [
        f"f.{scalar} = {steps.text(op.init)};",
        f"if ({steps.scope.count(over)} != 0) f.{scalar} = {combine}{{&f}}(f.{scalar}, f.{partials}[0]);",
    ]


CUDA = SinkLowering(_cuda_element, _cuda_before, _cuda_after)
