# SPDX-License-Identifier: Apache-2.0
"""reduce_blocks as CUDA kernels: several thread blocks share a long block. Where a kernel has neighbours of an element
at hand (lanes.py has the other kernels), several short blocks share a tile."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.lanes import Reduction, lanes_kernel
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.text import indented
from hipress.compll.passes import plan


def blocks_kernels(function: CudaFunction, loop: plan.Loop, others: Sequence[plan.Sink]) -> tuple[str, str]:
    """The bodies of two kernels: one for the elements, one for the partial results of long blocks.

    The first kernel also computes `others`, which work on single elements.
    """
    before = function.gradient_checked
    work, size, reductions, finish = _begun(function, loop)
    work.add(others)
    parts = f"{work.tile.count(loop.vector)}, {size}"
    kernel = lanes_kernel(work, reductions, parts)
    if kernel is None:
        function.gradient_checked = before
        work, size, reductions, _ = _begun(function, loop)
        kernel = _by_tiles(work, reductions, others, parts, size)
    copies = [
        line
        for key, line in work.prologue.items()
        if key == "size" or key.startswith(("init_", "v_", "r_", "s_", "p_"))
    ]
    return kernel, "\n".join([*copies, f"const cuda::BlockParts parts({parts});", *finish])


def _begun(function: CudaFunction, loop: plan.Loop) -> tuple[CudaPass, str, list[Reduction], list[str]]:
    """The pass for the elements, the size of the blocks, the reductions, and what finishes those of long blocks."""
    work = CudaPass(function, loop, set())
    assert loop.block is not None
    size = work.tile.copied(f"static_cast<size_t>(ops::atLeastOne({work.tile.expr(loop.block)}))", "size")
    reductions, finish = [], []
    for sink in loop.first:
        if not isinstance(sink, plan.BlocksTo):
            continue
        name, type_ = function.names(sink.name), c_type(sink.op.function.parameters[0][1])
        combine = f"{function.combine(sink.op)}{{f}}"
        result = stored_type(function.vectors.element(sink.name))
        results = work.tile.pointer(function.buffer(f"v_{name}", result, function.most(sink.name)))
        partials = work.tile.pointer(
            function.buffer(f"r_{name}", type_, f"cuda::mostPartials({function.most(loop.vector)})")
        )
        init = work.tile.copied(f"static_cast<{type_}>({work.tile.expr(sink.op.init)})", f"init_{name}")
        store = (
            f"if (parts.isShort()) {{\n  {results}[unit] = {combine}({init}, $result);\n"
            f"}} else {{\n  {partials}[unit] = $result;\n}}"
        )
        reductions.append(Reduction(name, type_, combine, sink.op.vector, store))
        finish.append(f"cuda::finishLongBlocks(block, parts, {partials}, {init}, {results}, {combine});")
    return work, size, reductions, finish


def _by_tiles(
    work: CudaPass, reductions: Sequence[Reduction], others: Sequence[plan.Sink], parts: str, size: str
) -> str:
    """The kernel for elements that all threads stage in shared memory."""
    short: list[str] = []
    long: list[str] = []
    ends: list[str] = []
    for number, each in enumerate(reductions):
        name, combine, staged = each.name, each.combine, work.stage(each.vector)
        work.tile.shared[f"lanes_{name}"] = f"HIPRESS_SHARED {each.type} lanes_{name}[ops::kLanes];"
        short.append(
            f"cuda::reduceShortBlocks(block, {staged}, count, static_cast<unsigned>({size}), init_{name},\n"
            f"                        v_{name} + size_t{{unit}} * parts.each(), {combine});"
        )
        long.append(f"cuda::feedLanes<{number % 8}>(block, {staged}, count, tile == first, lanes_{name}, {combine});")
        ends.append(f"r_{name}[unit] = cuda::finishLanes(lanes_{name}, last - first, {combine});")
    work.add(others)
    elements = work.text()
    newline = "\n"
    return f"""{work.opening()}
const cuda::BlockParts parts({parts});
for (auto unit = static_cast<uint32_t>(block.index); unit < parts.units(); unit += block.count) {{
  const size_t first = parts.first(unit);
  const size_t last = parts.last(unit);
  if (first >= last) continue;
  for (size_t tile = first; tile < last; tile += cuda::kTile) {{
    const unsigned count = cuda::tileCount(tile, last);
{indented(elements, 4)}
    if (parts.isShort()) {{
{indented(newline.join(short), 6)}
    }} else {{
{indented(newline.join(long), 6)}
    }}
    block.sync();
  }}
  if (!parts.isShort()) {{
    block.once([&] {{
{indented(newline.join(ends), 6)}
    }});
    block.sync();
  }}
}}
{work.closing() if work.bad else ""}"""


def single_elements(sinks: Sequence[plan.Sink], function: CudaFunction) -> bool:
    """Whether the sinks work on one element at a time, so that any kernel can compute them."""
    for sink in sinks:
        if isinstance(sink, plan.KeysTo):
            continue
        if not isinstance(sink, plan.StoreTo):
            return False
        if sink.place.kind == "message" and function.vectors.element(sink.vector).packed:
            return False
    return True
