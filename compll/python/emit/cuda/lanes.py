# SPDX-License-Identifier: Apache-2.0
"""Reductions of which each thread computes a lane of elements that it loads itself: core/ops/cuda/lanes.h.

No thread waits for another one until its lane is done. This is for kernels in which nothing else needs the neighbours
of an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.text import indented

#: Values that a thread loads before it computes with the first.
_LOADS = 16


@dataclass(frozen=True)
class Reduction:
    """`store`: a statement for the result of a unit, `$result`; a unit is a block or a part of one."""

    name: str
    type: str
    combine: str
    vector: str
    store: str


def feed(work: CudaPass, reductions: Sequence[Reduction], lanes: str = "cuda::kUnitLanes") -> str | None:
    """The statements with which thread `t` computes a lane of the elements from `first` to `last`; None if the work on
    an element needs more than the element. `work` has other sinks of the loop already. `lanes`: the size of the shared
    memory for all lanes."""
    tile = work.tile
    for each in reductions:
        value, own = f"static_cast<{each.type}>({tile.element(each.vector)})", f"own_{each.name}"
        tile.lines.append(f"{own} = place < first + ops::kLanes ? {value} : {each.combine}({own}, {value});")
        tile.shared[f"lanes_{each.name}"] = f"HIPRESS_SHARED {each.type} lanes_{each.name}[{lanes}];"
    if tile.words or tile.before or work.after or work.staged or not tile.loads:
        return None
    place = "[[maybe_unused]] const auto i = static_cast<int32_t>(place);"
    values = [f"{each.type} own_{each.name}{{}};" for each in reductions]
    lines = "\n".join
    body = list(tile.lines)
    if tile.stores:
        values += work.made()
        one = ["const cuda::Row<1> some{};", "const Made* const stored = &made;"]
        body = ["Made made{};", *body, *one, *(store.row for store in tile.stores.values())]
    return f"""{lines([*values, *work.given()])}
cuda::eachOfLane<{max(2, _LOADS // len(tile.loads))}>(first, last, t % ops::kLanes, [&](size_t place) {{
  {place}
  return {work.loaded()};
}}, [&](size_t place, const Given& given) {{
  {place}
{indented(lines(body), 2)}
}});"""


def lanes_kernel(work: CudaPass, reductions: Sequence[Reduction], parts: str) -> str | None:
    """The body of a kernel; None if the work on an element needs more than the element. `parts`: the arguments of
    cuda::BlockParts."""
    fed = feed(work, reductions)
    if fed is None:
        return None
    kept = [f"lanes_{each.name}[cuda::placeOfLane(t)] = own_{each.name};" for each in reductions]
    ends = [
        f"const {each.type} result_{each.name} = cuda::finishLanes(\n"
        f"    lanes_{each.name} + cuda::placeOfLane(t * ops::kLanes), last - first, {each.combine});\n"
        + each.store.replace("$result", f"result_{each.name}")
        for each in reductions
    ]
    lines = "\n".join
    return f"""{work.opening()}
const cuda::BlockParts parts({parts}, true);
const uint32_t together = cuda::unitsTogether(parts.units());
for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {{
  block.threads([&](unsigned t) {{
    const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
    if (t / ops::kLanes >= together || unit >= parts.units()) return;
    const size_t first = parts.first(unit), last = parts.last(unit);
{indented(fed, 4)}
{indented(lines(kept), 4)}
  }});
  block.sync();
  block.threads([&](unsigned t) {{
    const auto unit = static_cast<uint32_t>(base + t);
    if (t >= together || unit >= parts.units()) return;
    const size_t first = parts.first(unit), last = parts.last(unit);
    if (first >= last) return;
{indented(lines(ends), 4)}
  }});
  block.sync();
}}
{work.closing() if work.bad else ""}"""
