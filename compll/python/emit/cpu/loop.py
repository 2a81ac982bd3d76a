# SPDX-License-Identifier: Apache-2.0
"""A loop of the plan as a C++ kernel: for each tile, a plain loop over its elements that the C++ compiler vectorises.

The loop writes its values to arrays of one tile, which stay in the first cache; functions of core/ops/cpu pack, reduce,
compact and store them from there. A kernel handles the elements from `begin` to `end`, so threads can share a loop.
"""

from __future__ import annotations

import re
from itertools import product

from hipress.compll.emit.cpu.cuts import VARIABLE
from hipress.compll.emit.cpu.reducers import combiner, functor
from hipress.compll.emit.cpu.tile import BlockScope, CpuTile
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.function import Function
from hipress.compll.emit.scope import message_type, stored_type
from hipress.compll.emit.text import indented
from hipress.compll.passes import plan

#: The parameters for whose choices a kernel has versions of its own; each doubles its code.
_MOST_SWITCHES = 2


def emit_loop(function: Function, loop: plan.Loop, number: int) -> str:
    """Adds the kernel to the function; returns its name."""
    return _LoopEmitter(function, loop, f"Loop{number}").emit()


class _LoopEmitter:
    def __init__(self, function: Function, loop: plan.Loop, name: str) -> None:
        self.function, self.loop, self.name = function, loop, name
        self.vectors, self.names = function.vectors, function.names
        self.prologue: dict[str, str] = {}
        self.epilogue: list[str] = []
        self.switches: set[str] = set()
        self.together: dict[str, str] = {}

    def emit(self) -> str:
        body = self.blocks() if self.loop.block is not None else self.plain()
        switches = self.switched()
        prologue = "\n".join(self.prologue.values())
        text = f"""template <bool {self.function.flag}>
struct {self.name} {{
  template <IsaLevel level>
  struct Kernel {{
{indented(switches, 4)}
      [[maybe_unused]] int64_t allBad = 0;
{indented(prologue, 6)}
{indented(body, 6)}
{indented(chr(10).join(self.epilogue), 6)}
      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }}
  }};
}};
"""
        if self.loop.block is not None:
            text = re.sub(r"\bkTile\b", "kBlockTile", text)
        self.function.kernels.append(text)
        return self.name

    def switched(self) -> str:
        """The head of the kernel. It has a version for each choice that parameters make between expressions.

        So what is not chosen costs nothing: not a random number, nor a register.
        """
        arguments = "Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk"
        names = sorted(f"p_{name}" for name in self.switches)[:_MOST_SWITCHES]
        if not names:
            return f"static void run({arguments}) {{"
        for name in names:
            del self.prologue[name]
        lines = [f"static void run({arguments}) {{"]
        for values in product(("true", "false"), repeat=len(names)):
            chosen = [f"f->params.{name}" for name, value in zip(names, values, strict=True) if value == "true"]
            test = f"if ({' && '.join(chosen)}) " if chosen else ""
            lines.append(f"  {test}return version<{', '.join(values)}>(f, begin, end, chunk);")
        versions = ", ".join(f"bool {name}" for name in names)
        return "\n".join([*lines, "}", f"template <{versions}>", f"static void version({arguments}) {{"])

    def pass_over(self, sinks: list[plan.Sink], blocks: BlockScope | None) -> CpuPass:
        tile = CpuTile(self.function, self.prologue, self.loop)
        tile.block_scope = blocks
        result = CpuPass(tile)
        result.add(sinks)
        self.switches |= tile.switches
        self.together |= tile.together
        self.epilogue = result.epilogue or self.epilogue
        return result

    def plain(self) -> str:
        work = self.pass_over(self.loop.first, None)
        reduces = [sink for sink in self.loop.first if isinstance(sink, plan.ReduceTo)]
        if not reduces:
            return _tiles("begin", "end", work.text())
        reducers, finish = [], []
        for sink in reduces:
            type_, combine = combiner(self.function, sink.op)
            reducers.append(
                f"BlockReducer<level, {type_}, {combine}> reduce_{self.names(sink.name)}{{{functor(combine)}}};"
            )
            finish.append(
                f"f->r_{self.names(sink.name)}[first / ops::kReduceBlock] = reduce_{self.names(sink.name)}.finish();"
            )
            self.function.member(f"r_{self.names(sink.name)}", f"{type_}*", " = nullptr")
        inner = "\n".join([*reducers, _tiles("first", "last", work.text()), *finish])
        return (
            "for (size_t first = begin; first < end; first += ops::kReduceBlock) {\n"
            "  const size_t last = std::min(end, first + ops::kReduceBlock);\n"
            f"{indented(inner, 2)}\n}}"
        )

    def blocks(self) -> str:
        results: dict[str, str] = {}
        scope = BlockScope(self.function, self.prologue, results)
        assert self.loop.block is not None
        block = scope.expr(self.loop.block)
        self.prologue["size"] = f"const auto size = static_cast<size_t>(ops::atLeastOne({block}));"
        first, known = [], []
        if self.loop.first:
            work = self.pass_over(self.loop.first, None)
            for sink in self.loop.first:
                if isinstance(sink, plan.BlocksTo):
                    first.append(self.block_reducer(sink, results))
            first.append(_tiles("first", "last", work.text()))
            for sink in self.loop.first:
                if isinstance(sink, plan.BlocksTo):
                    first.append(self.block_result(sink, scope))
                    known.append(self.known_result(sink))
            first += self.made_by_blocks(self.loop.first, work)
        per_block: list[str] = []
        for store in self.loop.per_block:
            assert isinstance(store, plan.StoreTo)
            per_block.append(self.store_block(store, scope))
        passes = [self.block_pass(sinks, scope) for sinks in (self.loop.second, *self.loop.later) if sinks]
        middle = [*known, *scope.lines, *per_block]
        if not passes:
            return _each_block("begin", "end", [*first, *middle])
        last = "\n".join(passes)
        if not first:
            return _each_block("begin", "end", [*middle, last])
        alone = any(isinstance(s, plan.ByBlocks) and s.name in self.function.of_one_block for s in self.loop.first)
        together = "size" if alone else "size * ops::blocksTogether(size)"
        return _several_blocks(first, middle, [*self.together.values()], last, together)

    def block_pass(self, sinks: list[plan.Sink], scope: BlockScope) -> str:
        """A pass over the elements of a block whose results are known."""
        work = self.pass_over(sinks, scope)
        return "\n".join([_tiles("first", "last", work.text()), *self.made_by_blocks(sinks, work)])

    def made_by_blocks(self, sinks: list[plan.Sink], work: CpuPass) -> list[str]:
        """What ends a pass over the elements of a block."""
        lowered = [(sink, getattr(self.function.target.sinks[type(sink)], "per_block", None)) for sink in sinks]
        return [per_block(work, sink) for sink, per_block in lowered if per_block is not None]

    def block_reducer(self, sink: plan.BlocksTo, results: dict[str, str]) -> str:
        type_, combine = combiner(self.function, sink.op)
        name = self.names(sink.name)
        results[sink.name] = f"b_{name}"
        self.prologue["scratch"] = "ops::Scratch scratch;"
        self.prologue[f"partials_{name}"] = (
            f"{type_}* const partials_{name} = scratch.template take<{type_}>(size / ops::kReduceBlock + 1);"
        )
        return f"RunReducer<level, {type_}, {combine}> reduce_{name}(partials_{name}, {functor(combine)});"

    def block_result(self, sink: plan.BlocksTo, scope: BlockScope) -> str:
        combine = combiner(self.function, sink.op)[1]
        name = self.names(sink.name)
        element = stored_type(self.vectors.element(sink.name))
        self.function.member(f"v_{name}", f"{element}*", " = nullptr")
        return f"f->v_{name}[block] = {functor(combine)}({scope.expr(sink.op.init)}, reduce_{name}.finish());"

    def known_result(self, sink: plan.BlocksTo) -> str:
        type_, name = combiner(self.function, sink.op)[0], self.names(sink.name)
        return f"[[maybe_unused]] const {type_} b_{name} = f->v_{name}[block];"

    def store_block(self, sink: plan.StoreTo, scope: BlockScope) -> str:
        """One element of a vector of block results goes to the message, a new state or a buffer."""
        value, type_ = scope.element(sink.vector), self.vectors.element(sink.vector)
        if sink.place.kind == "state":
            after = f"f->after_{self.names(sink.place.name)}[block]"
            return f"if (kStates) allBad += ops::isFinite({after} = {value}) ? 0 : 1;"
        if sink.place.kind != "message":
            name = self.names(sink.place.name)
            self.function.member(f"v_{name}", f"{stored_type(type_)}*", " = nullptr")
            return f"f->v_{name}[block] = {value};"
        field, value = f"f->message + f->o_{sink.place.item}", scope.packable(value, type_)
        if type_.packed:
            return f"ops::packElement({value}, {field}, block, {scope.bits(type_)});"
        kept, size = message_type(type_), type_.message_bytes
        return f"ops::putScalar({field} + {size} * block, static_cast<{kept}>({value}));"


def _each_block(begin: str, end: str, lines: list[str]) -> str:
    body = "\n".join(lines)
    # A division by `size` for each block would take as long as a small block.
    start = f"[[maybe_unused]] size_t first = {begin}, block = {begin} / size"
    return (
        f"for ({start}; first < {end}; first += size, ++block) {{\n"
        f"  [[maybe_unused]] const size_t last = std::min({end}, first + size);\n"
        f"{indented(body, 2)}\n}}"
    )


def _several_blocks(first: list[str], middle: list[str], drawn: list[str], last: str, together: str) -> str:
    """Loops over a few small blocks, which stay in the first cache: over their elements, their results, their elements.

    So the processor computes the results of several blocks at once, and does not wait for each.
    """
    shared = [match for match in map(VARIABLE.match, middle) if match and re.search(rf"\b{match['name']}\b", last)]
    arrays = [f"{match['type']} s_{match['name']}[ops::kMostTogether];" for match in shared]
    stored = [f"s_{match['name']}[block - from / size] = {match['name']};" for match in shared]
    loaded = [f"const {match['type']} {match['name']} = s_{match['name']}[block - from / size];" for match in shared]
    body = "\n".join(
        [
            *arrays,
            _each_block("from", "until", first),
            _each_block("from", "until", [*middle, *stored]),
            *drawn,
            _each_block("from", "until", [*loaded, last]),
        ]
    )
    return (
        f"const size_t together = {together};\n"
        "[[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;\n"
        "for (size_t from = begin; from < end; from += together) {\n"
        "  const size_t until = std::min(end, from + together);\n"
        f"{indented(body, 2)}\n}}"
    )


def _tiles(first: str, last: str, body: str) -> str:
    return (
        f"for (size_t tile = {first}; tile < {last}; tile += kTile) {{\n"
        f"  [[maybe_unused]] const size_t count = std::min(kTile, {last} - tile);\n"
        f"{indented(body, 2)}\n}}"
    )
