# SPDX-License-Identifier: Apache-2.0
"""Vectors that need the memory of one block: a loop makes them by blocks, and only later passes of it read them."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.passes import plan
from hipress.compll.passes.uses import Uses
from hipress.compll.passes.vectors import Mapped, Vectors

_STORES = (ir.WriteState, ir.WriteGradient, ir.WriteMessage)


def of_one_block(vectors: Vectors, steps: list[plan.Step]) -> set[str]:
    """The names of these vectors. A function with branches has none, because its other branch may read them."""
    if any(isinstance(step, plan.Branch) for step in steps):
        return set()
    loops = [step for step in steps if isinstance(step, plan.Loop)]
    made = [(loop, sink) for loop in loops for sink in loop.sinks() if isinstance(sink, plan.ByBlocks)]
    uses = Uses(vectors.function)
    return {sink.name for loop, sink in made if _stays(sink.name, loop, loops, vectors, uses)}


def _stays(name: str, loop: plan.Loop, loops: list[plan.Loop], vectors: Vectors, uses: Uses) -> bool:
    """Whether only sinks of the loop read the vector, and each of them the element at hand."""
    reading, waiting = {name}, [name]
    while waiting:
        vector = waiting.pop()
        if vector in uses.by_rank:
            return False
        for use in uses.whole.get(vector, ()):
            if isinstance(use, ir.Map) and ir.Spread not in {type(a) for a in use.inputs if a.vector == vector}:
                found = {n for n, d in vectors.definitions.items() if isinstance(d, Mapped) and d.op is use}
                waiting += found - reading
                reading |= found
            elif not isinstance(use, _STORES) and not any(use is op for op in _operators(loop)):
                return False
    others = (sink for other in loops if other is not loop for sink in other.sinks())
    return reading.isdisjoint(sink.vector for sink in others if isinstance(sink, plan.StoreTo))


def _operators(loop: plan.Loop) -> list[ir.Operator]:
    return [sink.op for sink in loop.sinks() if isinstance(sink, plan.ByBlocks)]
