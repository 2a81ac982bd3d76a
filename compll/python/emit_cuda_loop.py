# SPDX-License-Identifier: Apache-2.0
"""A loop of the plan as a CUDA kernel: thread blocks take tile after tile, a thread computes some elements of each.

What needs an element's neighbours, too (packing, lanes of reductions, filters), finds the tile's values in shared
memory; operators of core/ops/cuda do the rest. A block-wise loop is three kernels: blocks are too long for one thread
block's memory, and often too few for a whole GPU. First the blocks are reduced (emit_cuda_blocks.py), then comes what
is computed once for a block, then what uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll import ir, plan
from hipress.compll.emit_cuda_function import CudaFunction, KernelScope, indented
from hipress.compll.emit_scope import c_type, stored_type
from hipress.compll.vectors import Mapped, Payload


class Tile(KernelScope):
    """Element i, which is the tile's element j."""

    def __init__(self, function: CudaFunction, prologue: dict[str, str], length: str, computed: set[str]) -> None:
        super().__init__(function, prologue)
        self.length = length
        self.computed = computed  # vectors that are spread, and in memory for that
        self.before: dict[str, str] = {}  # what is set up before the tile's elements
        self.shared: dict[str, str] = {}
        self.words: dict[int, str] = {}
        self.blocks: dict[str, str] = {}
        self.sources: set[str] = set()

    def position(self) -> str:
        return "i"

    def index(self, expr: ir.Index) -> str:
        inner = self.expr(expr.index)
        if inner == "i" and self.vectors.length(expr.vector) == self.length:
            return self.element(expr.vector)
        return self.at(expr.vector, inner)

    def source(self, name: str) -> str:
        self.sources.add(name)
        if name == ir.GRADIENT:
            if self.function.decoding:
                return "0.0f"
            self.prologue["scale"] = "const float scale = f->scale;"
            return f"cuda::load({self.pointer('gradient')} + i) * scale"
        pointer = self.pointer(f"before_{self.names(name)}")
        return f"kStates ? cuda::load({pointer} + i) : 0.0f"

    def payload(self, name: str) -> str:
        type_, pointer = self.vectors.element(name), self.pointer(f"v_{self.names(name)}")
        if type_.kind == "uint":
            return f"cuda::unpackAt({pointer}, i, {self.bits(type_)})"
        return f"cuda::load({pointer} + i)"

    def stored(self, name: str) -> str:
        if name in self.function.by_rank:
            return self.at(name, "i")
        type_ = self.vectors.element(name)
        member = self.function.member(f"v_{self.names(name)}", f"{stored_type(type_)}*", " = nullptr")
        return f"cuda::load({self.pointer(member)} + i)" + (" != 0" if type_.kind == "bool" else "")

    def spread(self, access: ir.Spread) -> str:
        size = f"ops::atLeastOne({self.expr(access.block)})"
        if size not in self.blocks:
            self.blocks[size] = f"blocks{len(self.blocks)}"
            self.before[self.blocks[size]] = (
                f"const cuda::TileBlocks {self.blocks[size]}(tile, static_cast<size_t>({size}));"
            )
        number = f"{self.blocks[size]}.of(j)"
        definition, type_ = self.vectors.definitions[access.vector], self.vectors.element(access.vector)
        floats = isinstance(definition, Payload) and type_.kind != "uint"
        if access.vector in self.computed or floats:
            pointer = self.pointer(f"v_{self.names(access.vector)}")
            count = self.copied(self.count(access.vector), f"count_{self.names(access.vector)}")
            return f"cuda::loadInside({pointer}, {count}, {number})" + (" != 0" if type_.kind == "bool" else "")
        return self.at(access.vector, number)

    def word(self, random: ir.Random) -> str:
        site = random.site
        self.shared[f"w_{site}"] = f"HIPRESS_SHARED uint{random.bits}_t w_{site}[cuda::kTile];"
        self.words[site] = f"cuda::philoxTile(block, random, {site}u, tile, count, w_{site});"
        self.prologue["random"] = "const ops::RandomKey random = f->random;"
        return f"w_{site}[j]" if random.bits == 32 else f"ops::halfWord(w_{site}[j])"


class Pass:
    """One pass over the elements of a tile, and what consumes them afterwards."""

    def __init__(self, function: CudaFunction, loop: plan.Loop, computed: set[str]) -> None:
        self.function, self.loop = function, loop
        self.vectors, self.names = function.vectors, function.names
        self.prologue: dict[str, str] = {}
        self.tile = Tile(function, self.prologue, loop.length, computed)
        self.staged: set[str] = set()
        self.after: list[str] = []
        self.reduces: list[plan.ReduceTo] = []
        self.bad = False

    def add(self, sinks: Sequence[plan.Sink]) -> None:
        for sink in sinks:
            self.sink(sink)
        checks = self.loop.length == "gradient.size" and not self.function.decoding
        if checks and ir.GRADIENT in self.tile.sources and not self.function.gradient_checked:
            self.function.gradient_checked = True
            self.check(self.tile.element(ir.GRADIENT))

    def stage(self, vector: str) -> str:
        """Shared memory with the vector's elements of the tile."""
        type_, value = self.vectors.element(vector), self.tile.element(vector)
        kept = "uint8_t" if type_.kind in ("bool", "uint") else c_type(type_)
        return self.array(value, kept)

    def array(self, value: str, kept: str) -> str:
        name = f"t_{value}"
        if name not in self.staged:
            self.staged.add(name)
            self.tile.shared[name] = f"HIPRESS_SHARED {kept} {name}[cuda::kTile];"
            self.tile.lines.append(f"{name}[j] = static_cast<{kept}>({value});")
        return name

    def check(self, value: str) -> None:
        """Counts values that are not finite."""
        self.tile.lines.append(f"bad += ops::isFinite({value}) ? 0 : 1;")
        self.bad = True

    def storable(self, vector: str) -> str:
        value = self.tile.element(vector)
        return f"({value} ? 1 : 0)" if self.vectors.element(vector).kind == "bool" else value

    # Sinks

    def sink(self, sink: plan.Sink) -> None:
        tile = self.tile
        match sink:
            case plan.ReduceTo():
                self.reduce(sink)
            case plan.FilterTo(name=name, op=op):
                value = tile.element(op.vector)
                (kept,) = tile.call(op.predicate, [value], [self.vectors.element(op.vector)])
                keep = self.array(tile.variable("bool", f"{kept} != 0"), "uint8_t")
                mask, counts = tile.pointer(f"m_{self.names(name)}"), tile.pointer(f"y_{self.names(name)}")
                self.after.append(f"cuda::maskTile(block, {keep}, count, tile, {mask}, {counts});")
            case plan.KeysTo(name=name, op=op):
                value = tile.element(op.vector)
                (key,) = tile.call(op.key, [value], [self.vectors.element(op.vector)])
                cast = "static_cast<int32_t>" if op.key.results[0].type.kind == "bool" else ""
                tile.lines.append(f"{tile.pointer(f'k_{self.names(name)}')}[i] = cuda::orderKey({cast}({key}));")
            case plan.StoreTo(vector=vector, target=target):
                self.store(vector, target)
            case plan.ScatterTo():
                self.scatter(sink)
            case plan.BlocksTo():
                raise AssertionError(sink)

    def reduce(self, sink: plan.ReduceTo) -> None:
        self.stage(sink.op.vector)
        self.reduces.append(sink)

    def store(self, vector: str, target: plan.Target) -> None:
        tile, type_ = self.tile, self.vectors.element(vector)
        match target.kind:
            case "buffer":
                tile.lines.append(f"{tile.pointer(f'v_{self.names(target.name)}')}[i] = {self.storable(vector)};")
            case "gradient":
                value, output = tile.element(vector), tile.pointer("output")
                tile.lines.append(f"{output}[i] = kAccumulate ? {output}[i] + {value} : {value};")
            case "state":
                value = tile.element(vector)
                self.check(value)
                tile.lines.append(f"if (kStates) {tile.pointer(f'after_{self.names(target.name)}')}[i] = {value};")
            case "message":
                self.message(vector, type_, target.item)

    def message(self, vector: str, type_: ir.Scalar, item: int) -> None:
        tile = self.tile
        field = tile.copied(f"f->message + f->o_{item}", f"field_{item}")
        if type_.kind == "uint":
            self.after.append(f"cuda::packTile(block, {self.stage(vector)}, count, {tile.bits(type_)}, {field}, tile);")
        elif item in self.function.aligned:
            typed = tile.copied(f"reinterpret_cast<{c_type(type_)}*>(f->message + f->o_{item})", f"typed_{item}")
            tile.lines.append(f"{typed}[i] = {tile.element(vector)};")
        else:
            place = f"{field} + 4 * static_cast<size_t>(i)"
            tile.lines.append(f"cuda::putBytes<{c_type(type_)}>({place}, {tile.element(vector)});")

    def scatter(self, sink: plan.ScatterTo) -> None:
        """Indices have been checked before: each is in range and occurs once."""
        tile = self.tile
        index = tile.element(sink.indices)
        value = tile.element(sink.values.vector) if isinstance(sink.values, ir.Vec) else tile.expr(sink.values)
        match sink.target.kind:
            case "gradient":
                place = f"{tile.pointer('output')}[{index}]"
                tile.lines.append(f"{place} = kAccumulate ? {place} + {value} : {value};")
            case "state":
                # The base's values were checked; what is overwritten does not count any more.
                place = f"{tile.pointer(f'after_{self.names(sink.target.name)}')}[{index}]"
                tile.lines += [
                    f"bad -= ops::isFinite(kStates ? {place} : {tile.at(sink.base, index)}) ? 0 : 1;",
                    f"bad += ops::isFinite({value}) ? 0 : 1;",
                    f"if (kStates) {place} = {value};",
                ]
                self.bad = True
            case _:
                tile.lines.append(f"{tile.pointer(f'v_{self.names(sink.target.name)}')}[{index}] = {value};")

    # Text

    def text(self) -> str:
        """What is done with the tile of `count` elements at `tile`."""
        lines = list(self.tile.before.values())
        if self.tile.words:
            lines += [*self.tile.words.values(), "block.sync();"]
        lines += [
            "block.elements(count, [&](unsigned j) {",
            "  [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);",
            *(f"  {line}" for line in self.tile.lines),
            "});",
        ]
        if self.tile.shared:  # the next tile goes there, too
            lines += ["block.sync();", *self.after, *(["block.sync();"] if self.after else [])]
        return "\n".join(lines)

    def opening(self) -> str:
        """Before everything else."""
        bad = ["[[maybe_unused]] int32_t bad = 0;"] if self.bad else []
        return "\n".join([*self.prologue.values(), *self.tile.shared.values(), *bad])

    def closing(self) -> str:
        return "if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));"


def plain_kernel(function: CudaFunction, loop: plan.Loop, sinks: Sequence[plan.Sink], computed: set[str]) -> str:
    """The body of a kernel that takes the tiles of a vector; see CudaSteps.kernel."""
    work = Pass(function, loop, computed)
    work.add(sinks)
    length = work.tile.copied(work.tile.count(loop.vector), "length")
    if work.reduces:
        body = _reducing(work)
    else:
        body = (
            f"for (size_t tile = block.index * cuda::kTile; tile < {length}; tile += block.count * cuda::kTile) {{\n"
            f"  [[maybe_unused]] const unsigned count = cuda::tileCount(tile, {length});\n"
            f"{indented(work.text(), 2)}\n}}"
        )
    return "\n".join([work.opening(), body, *([work.closing()] if work.bad else [])])


def _reducing(work: Pass) -> str:
    """Reductions of the whole vector: their blocks, not tiles, are what thread blocks take turns with."""
    finish = []
    for number, sink in enumerate(work.reduces):
        name, type_ = work.names(sink.name), c_type(sink.op.function.parameters[0][1])
        combine = f"{work.function.combine(sink.op)}{{f}}"
        work.tile.shared[f"lanes_{name}"] = f"HIPRESS_SHARED {type_} lanes_{name}[ops::kLanes];"
        staged = work.stage(sink.op.vector)
        partials = work.tile.pointer(f"r_{name}")
        work.after.append(
            f"cuda::feedLanes<{number % 8}>(block, {staged}, count, tile == first, lanes_{name}, {combine});"
        )
        finish.append(
            f"  {partials}[first / ops::kReduceBlock] = cuda::finishLanes(lanes_{name}, last - first, {combine});"
        )
    return "\n".join(
        [
            "for (size_t first = block.index * ops::kReduceBlock; first < length;",
            "     first += block.count * ops::kReduceBlock) {",
            "  const size_t last = cuda::atMost(first + ops::kReduceBlock, length);",
            "  for (size_t tile = first; tile < last; tile += cuda::kTile) {",
            "    const unsigned count = cuda::tileCount(tile, last);",
            indented(work.text(), 4),
            "  }",
            "  block.once([&] {",
            *(f"  {line}" for line in finish),
            "  });",
            "  block.sync();",
            "}",
        ]
    )


def spread_vectors(function: CudaFunction, sinks: Sequence[plan.Sink], block: ir.Expr) -> list[str]:
    """Computed vectors that the sinks use spread by `block`: better computed once for a block."""
    found: list[str] = []
    seen: set[str] = set()

    def visit(vector: str) -> None:
        definition = function.vectors.definitions[vector]
        if vector in seen or not isinstance(definition, Mapped):
            return
        seen.add(vector)
        for access in definition.op.inputs:
            if isinstance(access, ir.Vec):
                visit(access.vector)
            elif access.block == block and isinstance(function.vectors.definitions[access.vector], Mapped):
                found.append(access.vector)

    for sink in sinks:
        match sink:
            case plan.StoreTo(vector=vector) | plan.ScatterTo(values=ir.Vec(vector=vector)):
                visit(vector)
            case plan.ReduceTo(op=op) | plan.FilterTo(op=op) | plan.KeysTo(op=op):
                visit(op.vector)
    return list(dict.fromkeys(found))
