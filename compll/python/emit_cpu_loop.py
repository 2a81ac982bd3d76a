# SPDX-License-Identifier: Apache-2.0
"""A loop of the plan as a C++ kernel: tile by tile, a plain loop over elements that the compiler vectorises.

What the loop computes goes to arrays of one tile, which stay in the first cache; from there operators of core/ops/cpu
pack, reduce, compact and store. A kernel handles the elements from `begin` to `end`, so that threads can share a loop.
"""

from __future__ import annotations

import re

from hipress.compll import ir, plan
from hipress.compll.emit_cpu_pass import Pass
from hipress.compll.emit_cpu_scope import BlockScope, Tile
from hipress.compll.emit_function import Function
from hipress.compll.emit_scope import c_type, stored_type

_VECTOR_FUNCTORS = ("ops::Sum", "ops::Least", "ops::Greatest")  # those that core/ops/cpu has vector code for


def emit_loop(function: Function, loop: plan.Loop, number: int) -> str:
    """The kernel's name; its text is added to the function."""
    return _LoopEmitter(function, loop, f"Loop{number}").emit()


class _LoopEmitter:
    def __init__(self, function: Function, loop: plan.Loop, name: str) -> None:
        self.function, self.loop, self.name = function, loop, name
        self.vectors, self.names = function.vectors, function.names
        self.prologue: dict[str, str] = {}
        self.epilogue: list[str] = []

    def emit(self) -> str:
        body = self.blocks() if self.loop.block is not None else self.plain()
        prologue = "\n".join(self.prologue.values())
        text = f"""template <bool {self.function.flag}>
struct {self.name} {{
  template <IsaLevel level>
  struct Kernel {{
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {{
      [[maybe_unused]] int64_t allBad = 0;
{_indent(prologue, 6)}
{_indent(body, 6)}
{_indent(chr(10).join(self.epilogue), 6)}
      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }}
  }};
}};
"""
        if self.loop.block is not None:
            text = re.sub(r"\bkTile\b", "kBlockTile", text)
        self.function.kernels.append(text)
        return self.name

    def pass_over(self, sinks: list[plan.Sink], blocks: BlockScope | None, *, of_block: bool) -> Pass:
        tile = Tile(self.function, self.prologue, self.loop)
        tile.spread_scope = blocks
        result = Pass(tile)
        for sink in sinks:
            self.sink(result, sink, of_block=of_block)
        checks = self.loop.length == "gradient.size" and not self.function.decoding
        if checks and ir.GRADIENT in tile.sources and not self.function.gradient_checked:
            self.function.gradient_checked = True
            result.check(tile.element(ir.GRADIENT))
        return result

    def plain(self) -> str:
        work = self.pass_over(self.loop.first, None, of_block=False)
        reduces = [sink for sink in self.loop.first if isinstance(sink, plan.ReduceTo)]
        if not reduces:
            return _tiles("begin", "end", work.text())
        reducers, finish = [], []
        for sink in reduces:
            type_, combine = self.combiner(sink.op)
            reducers.append(
                f"BlockReducer<level, {type_}, {combine}> reduce_{self.names(sink.name)}{{{self.functor(combine)}}};"
            )
            finish.append(
                f"f->r_{self.names(sink.name)}[first / ops::kReduceBlock] = reduce_{self.names(sink.name)}.finish();"
            )
            self.function.member(f"r_{self.names(sink.name)}", f"{type_}*", " = nullptr")
        inner = "\n".join([*reducers, _tiles("first", "last", work.text()), *finish])
        return (
            "for (size_t first = begin; first < end; first += ops::kReduceBlock) {\n"
            "  const size_t last = std::min(end, first + ops::kReduceBlock);\n"
            f"{_indent(inner, 2)}\n}}"
        )

    def blocks(self) -> str:
        results: dict[str, str] = {}
        scope = BlockScope(self.function, self.prologue, results)
        assert self.loop.block is not None
        block = scope.expr(self.loop.block)
        self.prologue["size"] = f"const auto size = static_cast<size_t>(ops::atLeastOne({block}));"
        lines = []
        if self.loop.first:
            work = self.pass_over(self.loop.first, None, of_block=True)
            for sink in self.loop.first:
                if isinstance(sink, plan.BlocksTo):
                    lines.append(self.block_reducer(sink, results))
            lines.append(_tiles("first", "last", work.text()))
            for sink in self.loop.first:
                if isinstance(sink, plan.BlocksTo):
                    lines.append(self.block_result(sink, scope, results))
        per_block: list[str] = []
        for store in self.loop.per_block:
            assert isinstance(store, plan.StoreTo)
            per_block.append(self.store_block(store, scope))
        second = self.pass_over(self.loop.second, scope, of_block=True) if self.loop.second else None
        lines += [*scope.lines, *per_block]
        if second is not None:
            lines.append(_tiles("first", "last", second.text()))
        body = "\n".join(lines)
        return (
            "for (size_t first = begin; first < end; first += size) {\n"
            "  [[maybe_unused]] const size_t block = first / size;\n"
            "  const size_t last = std::min(end, first + size);\n"
            f"{_indent(body, 2)}\n}}"
        )

    def combiner(self, op: ir.Reduce) -> tuple[str, str]:
        """The type of a reduction, and of its functor."""
        return c_type(op.function.parameters[0][1]), combine_functor(self.function, op)

    def functor(self, type_: str) -> str:
        return type_ + ("{f}" if type_.startswith("Combine") else "{}")

    def block_reducer(self, sink: plan.BlocksTo, results: dict[str, str]) -> str:
        type_, combine = self.combiner(sink.op)
        name = self.names(sink.name)
        results[sink.name] = f"b_{name}"
        self.prologue["scratch"] = "ops::Scratch scratch;"
        self.prologue[f"partials_{name}"] = (
            f"{type_}* const partials_{name} = scratch.template take<{type_}>(size / ops::kReduceBlock + 1);"
        )
        return f"RunReducer<level, {type_}, {combine}> reduce_{name}(partials_{name}, {self.functor(combine)});"

    def block_result(self, sink: plan.BlocksTo, scope: BlockScope, results: dict[str, str]) -> str:
        type_, combine = self.combiner(sink.op)
        name = self.names(sink.name)
        element = stored_type(self.vectors.element(sink.name))
        self.function.member(f"v_{name}", f"{element}*", " = nullptr")
        return (
            f"const {type_} b_{name} = {self.functor(combine)}({scope.expr(sink.op.init)}, reduce_{name}.finish());\n"
            f"f->v_{name}[block] = b_{name};"
        )

    def store_block(self, sink: plan.StoreTo, scope: BlockScope) -> str:
        """One element of a vector of block results goes to the message or a buffer."""
        value, type_ = scope.element(sink.vector), self.vectors.element(sink.vector)
        if sink.target.kind != "message":
            name = self.names(sink.target.name)
            self.function.member(f"v_{name}", f"{stored_type(type_)}*", " = nullptr")
            return f"f->v_{name}[block] = {value};"
        field = f"f->message + f->o_{sink.target.item}"
        if type_.kind == "uint":
            return f"ops::packElement({value}, {field}, block, {scope.bits(type_)});"
        return f"std::memcpy({field} + 4 * block, &{value}, 4);"

    def sink(self, work: Pass, sink: plan.Sink, *, of_block: bool) -> None:
        tile = work.tile
        match sink:
            case plan.ReduceTo(name=name, op=op) | plan.BlocksTo(name=name, op=op):
                type_, combine = self.combiner(op)
                stored = stored_type(self.vectors.element(op.vector))
                in_registers = combine in _VECTOR_FUNCTORS and type_ == stored in ("float", "int32_t")
                value = self.storable(tile, op.vector)
                work.reduce(f"reduce_{self.names(name)}", value, stored, in_registers=in_registers)
            case plan.FilterTo(name=name, op=op):
                self.filter(work, name, op)
            case plan.KeysTo(name=name, op=op):
                value = tile.element(op.vector)
                (key,) = tile.call(op.key, [value], [self.vectors.element(op.vector)])
                type_ = "uint64_t" if op.key.results[0].type.kind == "double" else "uint32_t"
                member = self.function.member(f"k_{self.names(name)}", f"{type_}*", " = nullptr")
                cast = "static_cast<int32_t>" if op.key.results[0].type.kind == "bool" else ""
                tile.before[member] = f"{type_}* const {member} = f->{member} + tile;"
                tile.lines.append(f"{member}[i] = ops::orderKey({cast}({key}));")
            case plan.StoreTo(vector=vector, target=target):
                self.store(work, vector, target)
            case plan.ScatterTo():
                self.scatter(work, sink)

    def storable(self, tile: Tile, vector: str) -> str:
        """The element as it is kept in arrays."""
        value = tile.element(vector)
        if self.vectors.element(vector).kind == "bool":
            return tile.variable("int32_t", f"{value} ? 1 : 0")
        return value

    def filter(self, work: Pass, name: str, op: ir.Filter) -> None:
        tile, c_name = work.tile, self.names(name)
        value = tile.element(op.vector)
        (kept,) = tile.call(op.predicate, [value], [self.vectors.element(op.vector)])
        keep = work.array(tile.variable("int32_t", f"{kept} != 0 ? 1 : 0"), "int32_t")
        type_ = stored_type(self.vectors.element(name))
        self.function.member(f"a_{c_name}", f"ops::FilterOutputs<{type_}>")
        self.function.member(f"v_{c_name}", f"{type_}*", " = nullptr")
        self.prologue[f"a_{c_name}"] = f"ops::Appender<{type_}>& a_{c_name} = f->a_{c_name}[chunk];"
        if value == tile.position():
            compact = (
                f"compactIndices<level>({keep}, count, static_cast<int32_t>(tile), a_{c_name}.reserve(count + 16))"
            )
        else:
            values = work.array(self.storable(tile, op.vector), type_)
            compact = f"compactValues<level>({keep}, {values}, count, a_{c_name}.reserve(count + 16))"
        work.after.append(f"a_{c_name}.added({compact});")

    def store(self, work: Pass, vector: str, target: plan.Target) -> None:
        tile, type_ = work.tile, self.vectors.element(vector)
        match target.kind:
            case "buffer":
                name = self.names(target.name)
                member = self.function.member(f"v_{name}", f"{stored_type(type_)}*", " = nullptr")
                tile.before[f"to {member}"] = f"{stored_type(type_)}* const to_{member} = f->{member} + tile;"
                tile.lines.append(f"to_{member}[i] = {self.storable(tile, vector)};")
            case "gradient":
                tile.before["output"] = "float* const output = f->output + tile;\nprefetchTile<kTile>(output + kTile);"
                value = tile.element(vector)
                tile.lines.append(f"output[i] = kAccumulate ? output[i] + {value} : {value};")
            case "state":
                value = tile.element(vector)
                work.check(value)
                array = work.array(value, "float")
                after = f"f->after_{self.names(target.name)} + tile"
                work.after.append(f"if (kStates) storeTile<level>({after}, {array}, count, f->stream);")
                # Of the thread that streamed: another one's fence does not order these stores.
                self.epilogue = ["if (kStates && f->stream) streamFence();"]
            case "message":
                value = self.storable(tile, vector)
                array = work.array(value, "uint8_t" if type_.kind == "uint" else stored_type(type_))
                field = f"f->message + f->o_{target.item}"
                if type_.kind == "uint":
                    work.after.append(f"packTile<level>({array}, count, {tile.bits(type_)}, {field}, tile);")
                else:
                    work.after.append(f"std::memcpy({field} + 4 * tile, {array}, 4 * count);")

    def scatter(self, work: Pass, sink: plan.ScatterTo) -> None:
        """Indices have been checked before: each is in range and occurs once."""
        tile = work.tile
        index = tile.element(sink.indices)
        value = tile.element(sink.values.vector) if isinstance(sink.values, ir.Vec) else tile.expr(sink.values)
        match sink.target.kind:
            case "gradient":
                tile.lines.append(f"float& place = f->output[{index}];")
                tile.lines.append(f"place = kAccumulate ? place + {value} : {value};")
            case "state":
                # The base's values were checked; what is overwritten does not count any more.
                place = f"f->after_{self.names(sink.target.name)}[{index}]"
                tile.lines += [
                    f"bad -= ops::isFinite(kStates ? {place} : {tile.at(sink.base, index)}) ? 0 : 1;",
                    f"bad += ops::isFinite({value}) ? 0 : 1;",
                    f"if (kStates) {place} = {value};",
                ]
                work.bad = True
            case _:
                tile.lines.append(f"f->v_{self.names(sink.target.name)}[{index}] = {value};")


def combine_functor(function: Function, op: ir.Reduce) -> str:
    """The type of a reduction's functor: one of the operators' own, which have vector code, or one made for it."""
    (a, _), (b, _) = op.function.parameters
    result = op.function.results[0]
    match result:
        case ir.Binary(operator="+", left=ir.Var(name=left), right=ir.Var(name=right)) if (left, right) == (a, b):
            return "ops::Sum"
        case ir.Call(function="min", arguments=(ir.Var(name=left), ir.Var(name=right))) if (left, right) == (a, b):
            return "ops::Least"
        case ir.Call(function="max", arguments=(ir.Var(name=left), ir.Var(name=right))) if (left, right) == (a, b):
            return "ops::Greatest"
    return function.combine(op)


def _tiles(first: str, last: str, body: str) -> str:
    return (
        f"for (size_t tile = {first}; tile < {last}; tile += kTile) {{\n"
        f"  [[maybe_unused]] const size_t count = std::min(kTile, {last} - tile);\n"
        f"{_indent(body, 2)}\n}}"
    )


def _indent(text: str, by: int) -> str:
    return "\n".join(line if line.startswith("#") or not line else " " * by + line for line in text.split("\n"))
