# SPDX-License-Identifier: Apache-2.0
"""How the body of a C++ kernel names values: for an element of a tile, and for a block of a block-wise loop."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.cpu.cuts import LookUp
from hipress.compll.emit.function import FEW, Function
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.tile import KernelScope, Tile
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Computed, Mapped, Source

#: Tables of at most this many elements are in registers of vectors (core/ops/cpu/packing/look_up.h).
_MOST = 128


class CpuTile(Tile):
    """Element i of the tile that begins at `tile`."""

    def __init__(self, function: Function, prologue: dict[str, str], loop: plan.Loop) -> None:
        super().__init__(function, prologue, loop.length)
        self.loop = loop
        self.block_scope: BlockScope | None = None
        self.factors: set[str] = set()  # the parameters that multiply states which the loop reads
        self.together: dict[str, str] = {}  # statements that a loop runs once for several blocks
        self._look_ups: list[LookUp] = []
        self._large_table = False
        self.reads_from: int | None = None  # the first of `lines` that reads from a computed place

    def position(self) -> str:
        return "(static_cast<int32_t>(tile) + static_cast<int32_t>(i))"

    def place(self, expr: ir.Index, text: str) -> str:
        """A place in the gradient's length that has to be computed gets a variable."""
        far = isinstance(self.vectors.definitions[self.vectors.counted(expr.vector)], Source)
        if not far or self.reads_from is not None or isinstance(expr.index, (ir.Var, ir.Const)):
            return text
        name = self.variable("int32_t", text)
        self.reads_from = len(self.lines)
        return name

    def index(self, expr: ir.Index) -> str:
        """The elements of a middle-sized table are looked up for all elements of the tile at once."""
        definition = self.vectors.definitions[expr.vector]
        op = definition.op if isinstance(definition, Computed) else None
        if not isinstance(op, ir.Constants) or len(op.values) <= FEW or isinstance(expr.index, ir.Const):
            return super().index(expr)
        # A loop that reads a large table has to wait for memory anyway, and arrays between loops would cost more.
        self._large_table |= len(op.values) > _MOST
        type_ = c_type(op.type)
        own = self.vectors.length(expr.vector) == self.length
        if self._large_table or own or self._chosen or type_ not in ("float", "int32_t"):
            return super().index(expr)
        places = self.expr(expr.index)
        if f"[[maybe_unused]] const int32_t {places} " not in "\n".join(self.lines):
            places = self.variable("int32_t", places)
        value = self.variable(type_, self.at(expr.vector, places))
        at = f"[&](int32_t i) {{ return {self.at(expr.vector, 'i')}; }}"
        table = f"look_{self.names(expr.vector)}"
        declaration = f"const ops::LookUp<level, {type_}, {len(op.values)}> {table}({at});"
        self._look_ups.append(LookUp(len(self.lines) - 1, table, declaration, type_, places, value))
        return value

    def look_ups(self) -> list[LookUp]:
        """What to look up for all elements at once, before the line that has the value."""
        for look in [] if self._large_table else self._look_ups:
            self.prologue[look.table] = look.declaration
        return [] if self._large_table else self._look_ups

    def loaded(self, member: str, type_: str, *, states_only: bool = False) -> str:
        pointer = f"f->{member} + tile"
        if states_only:
            pointer = f"kStates ? {pointer} : nullptr"
        self.before[member] = f"const {type_}* const {member} = {pointer};"
        return f"{member}[i]"

    def loaded_state(self, name: str) -> str:
        """Where the type `multiply` is std::false_type, all factors are 1. Loops over blocks gain nothing from it."""
        if name not in self.function.factors or self.loop.block is not None:
            return super().loaded_state(name)
        element = self.loaded(f"before_{self.names(name)}", "float", states_only=True)
        factor = self.param(self.function.factors[name])
        self.factors.add(factor)
        return f"kStates ? (multiply.value ? {factor} * {element} : {element}) : 0.0f"

    def stored(self, name: str) -> str:
        if name not in self.function.of_one_block:
            return super().stored(name)
        c_name = self.names(name)
        self.before[f"v_{c_name}"] = f"const float* const v_{c_name} = block_{c_name} + (tile - first);"
        return f"v_{c_name}[i]"

    def unpacked(self, name: str) -> str:
        c_name = self.names(name)
        self.before[f"v_{c_name}"] = (
            f"alignas(64) int32_t u_{c_name}[kTile];\n"
            f"unpackTile<level>(f->v_{c_name}, tile, count, {self.bits(self.vectors.element(name))}, u_{c_name});"
        )
        return f"u_{c_name}[i]"

    def _element(self, vector: str) -> str:
        if not _is_in_memory(self, vector):
            return super()._element(vector)
        return _read(self, vector, self.loaded(f"v_{self.names(vector)}", stored_type(self.vectors.element(vector))))

    def gathered(self, vector: str, indices: str) -> str:
        """An element that a new state holds is read there: in one place in place of the gradient and every old state.

        A scatter of this loop may replace it. The variable has the value from before.
        """
        text, state = super().gathered(vector, indices), self.function.held.get(vector)
        replaced = [sink.indices for sink in self.loop.sinks() if isinstance(sink, plan.ScatterTo)]
        if state is None or any(other != indices for other in replaced):
            return text
        key = f"{vector} at {indices}"
        if key not in self._elements:
            held = f"f->after_{self.names(state)}[{self.element(indices)}]"
            self._elements[key] = self.variable(c_type(self.vectors.element(vector)), f"kStates ? {held} : {text}")
        return self._elements[key]

    def spread(self, access: ir.Spread) -> str:
        if self.block_scope is not None and access.block == self.loop.block:
            return self.block_scope.element(access.vector)
        block = f"ops::atLeastOne({self.expr(access.block)})"
        return self.at(access.vector, f"({self.position()} / {block})")

    def word(self, random: ir.Random) -> str:
        site = random.site
        key = "f->random.ofAllRanks()" if random.shared else "f->random"
        word = f"uint{random.bits}_t"
        if self.block_scope is not None and self.loop.first:
            # A run of random numbers takes long and waits for nothing, so small blocks get theirs in one run.
            run = f"philoxTile<level>({key}, {site}u, from, until - from, drawn_{site});"
            own = f"philoxTile<level>({key}, {site}u, tile, count, drawn_{site});"
            self.together[f"random {site}"] = (
                f"alignas(64) {word} drawn_{site}[kTile];\n{self.where_chosen(f'if (together <= kTile) {run}')}"
            )
            self.before[f"random {site}"] = (
                f"{self.where_chosen(f'if (together > kTile) {own}')}\n"
                f"const {word}* const w_{site} = drawn_{site} + (together <= kTile ? tile - from : 0);"
            )
        else:
            draw = f"philoxTile<level>({key}, {site}u, tile, count, w_{site});"
            self.before[f"random {site}"] = f"alignas(64) {word} w_{site}[kTile];\n{self.where_chosen(draw)}"
        return f"w_{site}[i]" if random.bits == 32 else f"ops::halfWord(w_{site}[i])"


class BlockScope(KernelScope):
    """Block number `block` of a block-wise loop."""

    def __init__(self, function: Function, prologue: dict[str, str], results: dict[str, str]) -> None:
        super().__init__(function, prologue)
        self.results = results
        self._fresh = 100000  # the loops over elements see these variables, so their numbers differ

    def position(self) -> str:
        return "static_cast<int32_t>(block)"

    def source(self, name: str) -> str:
        return self.at(name, self.position())

    def payload(self, name: str) -> str:
        return self.at(name, self.position())

    def stored(self, name: str) -> str:
        return self.results[name] if name in self.results else self.at(name, self.position())

    def _element(self, vector: str) -> str:
        if not _is_in_memory(self, vector):
            return super()._element(vector)
        return _read(self, vector, f"f->v_{self.names(vector)}[block]")

    def spread(self, access: ir.Spread) -> str:
        block = f"ops::atLeastOne({self.expr(access.block)})"
        return self.at(access.vector, f"({self.position()} / {block})")


def _is_in_memory(scope: KernelScope, vector: str) -> bool:
    """Whether an earlier loop has stored the map. It is read then, in place of all that it depends on."""
    return vector in scope.function.buffered and isinstance(scope.vectors.definitions[vector], Mapped)


def _read(scope: KernelScope, vector: str, stored: str) -> str:
    """The variable with an element of such a map, from the text of the stored element."""
    type_ = scope.vectors.element(vector)
    return scope.variable(c_type(type_), stored + (" != 0" if type_.kind == "bool" else ""))
