# SPDX-License-Identifier: Apache-2.0
"""A block-wise encode as one kernel that reads each element once from memory, for blocks that are short.

A thread block takes some of the vector's blocks: 4,096 elements at a time, 1,024 of a short vector. Its threads reduce
these blocks in lanes (lanes.py), one thread for each block computes the values that the block has once, and then all
threads take the elements again. The multiprocessor's cache still has them, since they are few.

Which programs are of this form is decided here. The host decides for each call whether its blocks are short enough, and
starts the kernels of loop.py otherwise.
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.lanes import Reduction, feed
from hipress.compll.emit.cuda.loop import spread_vectors
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.text import indented
from hipress.compll.ir.expressions import TRIT
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Mapped, Source, Vectors

_SERIAL = (plan.Scalar, plan.Count, plan.Offset, plan.Finish)


class SeveralPasses(Exception):
    """One kernel cannot do the loop after all: a block's value is packed, or an element of a reduction is random."""


def one_pass_block(steps: list[plan.Step], vectors: Vectors) -> ir.Expr | None:
    """The size of the blocks if the plan is one block-wise loop that one kernel can do; else None."""
    loops = [step for step in steps if isinstance(step, plan.Loop)]
    if len(loops) != 1 or not all(isinstance(step, (*_SERIAL, plan.Loop)) for step in steps):
        return None
    (loop,) = loops
    reduced = {sink.name for sink in loop.first if isinstance(sink, plan.BlocksTo)}
    if loop.block is None or not reduced or len(reduced) != len(loop.first) or loop.later:
        return None
    if loop.length != "gradient.size" or not all(isinstance(sink, plan.StoreTo) for sink in loop.second):
        return None
    stores = [sink for sink in (*loop.per_block, *loop.second) if isinstance(sink, plan.StoreTo)]
    if any(sink.place.kind == "buffer" or vectors.element(sink.vector) == TRIT for sink in stores):
        return None
    whole = [name for name, made in vectors.definitions.items() if isinstance(made, Source) and made.block == 1]
    return loop.block if len(whole) == 1 + len(vectors.function.states) else None


def one_pass_kernel(function: CudaFunction, loop: plan.Loop) -> str:
    """The body of the kernel for the loop of a plan that has one_pass_block(). Raises SeveralPasses."""
    assert loop.block is not None
    outer = CudaPass(function, loop, set())
    size = outer.tile.copied(f"static_cast<size_t>(ops::atLeastOne({outer.tile.expr(loop.block)}))", "size")
    reducing = CudaPass(function, loop, set())
    count = reducing.tile.count(loop.vector)
    reductions, results, local = [], [], {}
    for sink in loop.first:
        assert isinstance(sink, plan.BlocksTo)
        name, type_ = function.names(sink.name), c_type(sink.op.function.parameters[0][1])
        combine, result = f"{function.combine(sink.op)}{{f}}", stored_type(function.vectors.element(sink.name))
        init = f"static_cast<{type_}>({outer.tile.expr(sink.op.init)})"
        reductions.append(Reduction(name, type_, combine, sink.op.vector, ""))
        lanes = f"lanes_{name} + cuda::placeOfLane(t * ops::kLanes)"
        results += [
            f"const {type_} result_{name} = cuda::finishLanes(\n    {lanes}, last - first, {combine});",
            f"[[maybe_unused]] const {result} one_{name} = {combine}({init}, result_{name});",
        ]
        local[sink.name] = f"one_{name}"
    fed = feed(reducing, reductions, "cuda::kOnePassLanes")
    if fed is None:
        raise SeveralPasses

    one_of_block = next(iter(local))
    per_block = CudaPass(function, plan.Loop(function.vectors.length(one_of_block), one_of_block), set())
    per_block.tile.local = local
    per_block.add(loop.per_block)
    spread = _spread(function, loop, list(local))
    near = {vector: f"near_{function.names(vector)}" for vector in spread}
    arrays = []
    for vector, array in near.items():
        kept = stored_type(function.vectors.element(vector))
        per_block.tile.lines.append(f"{array}[t] = {per_block.storable(vector)};")
        arrays.append(f"HIPRESS_SHARED {kept} {array}[cuda::kOnePassUnits];")
    one = ["const cuda::Row<1> some{};", "const Made* const stored = &made;"]
    stores = [store.row for store in per_block.tile.stores.values()]
    made = [*per_block.made(), "Made made{};"] if stores else []
    if per_block.tile.loads or per_block.tile.shared or per_block.tile.words or per_block.after:
        raise SeveralPasses

    second = CudaPass(function, loop, set())
    second.tile.near = near
    second.add(loop.second)
    lane_values = [f"lanes_{each.name}[cuda::placeOfLane(lane)] = own_{each.name};" for each in reductions]
    shared = [*reducing.tile.shared.values(), *arrays, *second.tile.shared.values()]
    bad = ["[[maybe_unused]] int32_t bad = 0;"] if second.bad or reducing.bad else []
    lines = "\n".join
    # Each part copies what it needs of the frame, so that few registers are in use at a time.
    return f"""{lines([*outer.prologue.values(), *shared, *bad])}
const cuda::BlockParts parts({count}, {size}, true);
const uint32_t together = cuda::onePassUnits({count}, {size});
for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {{
  block.threads([&](unsigned t) {{
{indented(lines(reducing.prologue.values()), 4)}
    for (unsigned lane = t; lane < together * ops::kLanes; lane += cuda::kThreads) {{
      const auto unit = static_cast<uint32_t>(base + lane / ops::kLanes);
      if (unit >= parts.units()) return;
      const size_t first = parts.first(unit), last = parts.last(unit);
{indented(fed, 6)}
{indented(lines(lane_values), 6)}
    }}
  }});
  block.sync();
  block.threads([&](unsigned t) {{
    const auto unit = static_cast<uint32_t>(base + t);
    if (t >= together || unit >= parts.units()) return;
    const size_t first = parts.first(unit), last = parts.last(unit);
    [[maybe_unused]] const auto i = static_cast<int32_t>(unit);
{indented(lines(per_block.prologue.values()), 4)}
{indented(lines([*results, *made, *per_block.tile.lines, *(one if stores else []), *stores]), 4)}
  }});
  block.sync();
{indented(lines(second.prologue.values()), 2)}
  const size_t behind = cuda::atMost((base + together) * {size}, {count});
  for (size_t tile = base * {size}; tile < behind; tile += cuda::kTile) {{
    [[maybe_unused]] const unsigned count = cuda::tileCount(tile, behind);
{indented(second.text(), 4)}
  }}
  block.sync();
}}
{second.closing() if bad else ""}"""


def _spread(function: CudaFunction, loop: plan.Loop, reduced: list[str]) -> list[str]:
    """The vectors of which the second pass takes a block's value."""
    assert loop.block is not None
    mapped = spread_vectors(function, loop.second, loop.block)
    used = [
        access.vector
        for definition in function.vectors.definitions.values()
        if isinstance(definition, Mapped)
        for access in definition.op.inputs
        if isinstance(access, ir.Spread) and access.block == loop.block and access.vector in reduced
    ]
    return list(dict.fromkeys([*mapped, *used]))
