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
from hipress.compll.emit.function import Function
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
        planner.ready[keys] = _keys(planner, name, op, count if mode in ("take", "set") else None)
        needs |= {keys}
    gives = [Need("stored", name)] + ([Need("count", name)] if mode in ("take", "set") else [])
    planner.after(needs, plan.Order(name, op.vector, mode, count), *gives)


def _keys(planner: Planner, name: str, op: ir.Sort, first: ir.Expr | None) -> int:
    """Adds the keys to a loop; its time. Where the number of needed keys and a sample of the keys are known before
    that loop, the loop need not store all keys."""
    sink = plan.KeysTo(name, op)
    time = planner.place(sink, op.vector)
    if first is not None:
        of = planner.of()
        if planner.time(of.expr(first) | of.indexed(op.vector) | of.function(op.key)) < time:
            planner.replace(sink, plan.KeysTo(name, op, first))
    return time


def _increasing(vectors: Vectors, op: ir.Sort) -> bool:
    return identity(op.key) and vectors.distinct(op.vector)


def _distinct(vectors: Vectors, op: ir.Sort) -> bool:
    return vectors.distinct(op.vector)


PLANNING = Planning(_plan, increasing=_increasing, distinct=_distinct)


# For processors: if only the smallest keys are needed, a limit is estimated from a sample before the loop, and the loop
# keeps the candidates, which are the keys up to the limit. CpuSteps.order() corrects a limit that was too low.


def _cpu_element(work: CpuPass, sink: plan.KeysTo) -> None:
    tile, key, type_ = work.tile, key_of(work.tile, sink.op), key_type(sink.op)
    name = work.names(sink.name)
    if sink.first is None:
        member = work.function.member(f"k_{name}", f"{type_}*", " = nullptr")
        tile.before[member] = f"{type_}* const {member} = f->{member} + tile;"
        tile.lines.append(f"{member}[i] = {key};")
        return
    keys = work.array(tile.variable(type_, key), type_)
    tile.prologue[f"a_{name}"] = f"auto a_{name} = f->a_{name}[chunk];"
    work.after.append(f"a_{name}.template add<level>({keys}, count, tile);")


def _cpu_before(steps: CpuSteps, sink: plan.KeysTo, over: str) -> None:
    name, type_, count = steps.names(sink.name), key_type(sink.op), steps.scope.count(over)
    if sink.first is None:
        steps.reserve(f"k_{name}", type_, count)
        return
    function = steps.function
    function.member(f"k_{name}", f"const {type_}*", " = nullptr")
    function.member(f"l_{name}", type_, " = 0")
    function.member(f"a_{name}", f"ops::Candidates<{type_}>")
    first = steps.least(f"ops::asCount({steps.text(sink.first)})", count)
    at = f"[&f](size_t i) {{ return {_key_at(function, sink.name, sink.op)}(&f, static_cast<int32_t>(i)); }}"
    steps.lines.append(f"f.l_{name} = ops::likelyLimit<{type_}>({count}, {first}, {at});")


def _key_at(function: Function, name: str, op: ir.Sort) -> str:
    """A function that gives the key of the element at an index."""
    type_, c_name = key_type(op), f"key_{function.names(name)}"
    scope = function.anywhere()
    key = key_of(scope, op)
    body = "\n".join(f"  {line}" for line in scope.lines)
    head = f"template <bool {function.flag}>\ninline {type_} {c_name}([[maybe_unused]] const Frame* f, int32_t i)"
    function.at_functions[c_name] = f"{head} {{\n{body}\n  return {key};\n}}\n"
    return f"{c_name}<{function.flag}>"


def _cpu_chunks(steps: CpuSteps, sink: plan.KeysTo) -> str:
    name = steps.names(sink.name)
    return "" if sink.first is None else f"f.a_{name}.begin(chunks.count(), chunks.each(), f.l_{name});"


def _cpu_after(steps: CpuSteps, sink: plan.KeysTo, over: str) -> None:
    if sink.first is not None:
        steps.selections[sink.name] = plan.Loop(steps.vectors.length(over), over, first=[sink])
        steps.lines.append(f"f.k_{steps.names(sink.name)} = f.a_{steps.names(sink.name)}.gathered(f.scratch);")


CPU = CpuSink(_cpu_element, _cpu_before, _cpu_after, _cpu_chunks)


def _cuda_element(work: CudaPass, sink: plan.KeysTo) -> None:
    key = key_of(work.tile, sink.op)
    work.tile.store(work.tile.pointer(f"k_{work.names(sink.name)}"), key_type(sink.op), key)


def _cuda_before(steps: CudaSteps, sink: plan.KeysTo, over: str) -> None:
    steps.function.buffer(f"k_{steps.names(sink.name)}", key_type(sink.op), steps.function.most(over))


CUDA = SinkLowering(_cuda_element, _cuda_before)
