# SPDX-License-Identifier: Apache-2.0
"""How the body of a CUDA kernel names the values of an element."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.tile import Tile
from hipress.compll.passes.vectors import Payload

#: A kernel's copy of the key of random numbers.
RANDOM = "const ops::RandomKey random = f->random;"


@dataclass(frozen=True)
class Load:
    """A value of an element, which is loaded before anything is computed. `text` gives it for one element; `row` is a
    statement that loads it for some (core/ops/cuda/rows.h)."""

    type: str
    text: str
    row: str


@dataclass(frozen=True)
class Store:
    """A value of an element, which is stored after all has been computed, by the statement `row`."""

    type: str
    row: str


class CudaTile(Tile):
    """Element i, which is element j of the tile."""

    function: CudaFunction

    def __init__(self, function: CudaFunction, prologue: dict[str, str], length: str, computed: set[str]) -> None:
        super().__init__(function, prologue, length)
        self.computed = computed  # spread vectors that an earlier kernel has put in memory
        self.loads: dict[str, Load] = {}  # what an element needs from memory
        self.stores: dict[str, Store] = {}  # what it leaves there
        self.shared: dict[str, str] = {}  # declarations of shared memory
        self.words: dict[int, str] = {}  # statements that draw a tile's random numbers
        self.blocks: dict[str, str] = {}  # names of the objects that number a tile's blocks, by block size
        self.near: dict[
            str, str
        ] = {}  # names of arrays with spread vectors' values for the blocks at hand, from `base`
        self.local: dict[str, str] = {}  # names of variables with elements of vectors that are in no memory

    def position(self) -> str:
        return "i"

    def pointer(self, member: str) -> str:
        """A local copy of a pointer of the frame."""
        return self.copied(f"f->{member}", member)

    def loaded(self, member: str, type_: str, *, states_only: bool = False) -> str:
        pointer = self.pointer(member)
        text, row = f"cuda::load({pointer} + i)", f"cuda::loadRow(some, {pointer} + i, given, &Given::{member});"
        if states_only:
            text, row = f"kStates ? {text} : {type_}{{}}", f"if (kStates) {row}"
        return self.given(member, Load(type_, text, row))

    def unpacked(self, name: str) -> str:
        pointer = self.pointer(f"v_{self.names(name)}")
        bits = self.bits(self.vectors.element(name))
        code = f"code_{self.names(name)}"
        row = f"cuda::unpackRow(some, {pointer}, i, {bits}, given, &Given::{code});"
        return self.given(code, Load("int32_t", f"cuda::unpackAt({pointer}, i, {bits})", row))

    def given(self, name: str, load: Load) -> str:
        """The text of the loaded value."""
        self.loads[name] = load
        return f"given.{name}"

    def store(self, pointer: str, type_: str, value: str, condition: str = "") -> None:
        """Element i of an array becomes `value`; `pointer`: the name of a local copy of its pointer."""
        self.lines.append(f"made.{pointer} = {value};")
        row = f"{condition}cuda::storeRow(some, {pointer} + i, stored, &Made::{pointer});"
        self.stores[pointer] = Store(type_, row)

    def spread(self, access: ir.Spread) -> str:
        size = f"ops::atLeastOne({self.expr(access.block)})"
        if size not in self.blocks:
            self.blocks[size] = f"blocks{len(self.blocks)}"
            name = f"size_{self.blocks[size]}"
            self.prologue[name] = f"const cuda::BlockSize {name}(static_cast<size_t>({size}));"
            self.before[self.blocks[size]] = f"const cuda::TileBlocks {self.blocks[size]}(tile, {name});"
        number = f"{self.blocks[size]}.of(j)"
        if access.vector in self.near:
            return f"{self.near[access.vector]}[{number} - static_cast<int32_t>(base)]"
        definition, type_ = self.vectors.definitions[access.vector], self.vectors.element(access.vector)
        numbers = isinstance(definition, Payload) and not type_.packed
        if access.vector in self.computed or numbers:
            pointer = self.pointer(f"v_{self.names(access.vector)}")
            count = self.copied(self.count(access.vector), f"count_{self.names(access.vector)}")
            value = f"cuda::loadInside({pointer}, {count}, {number})"
            if numbers:
                return self.unpackable(value, type_)
            return value + (" != 0" if type_.kind == "bool" else "")
        return self.at(access.vector, number)

    def stored(self, name: str) -> str:
        return self.local[name] if name in self.local else super().stored(name)

    def word(self, random: ir.Random) -> str:
        site = random.site
        self.shared[f"w_{site}"] = f"HIPRESS_SHARED uint{random.bits}_t w_{site}[cuda::kTile];"
        key = "random.ofAllRanks()" if random.shared else "random"
        self.words[site] = self.where_chosen(f"cuda::philoxTile(block, {key}, {site}u, tile, count, w_{site});")
        self.prologue["random"] = RANDOM
        self.function.draws.add(re.sub(r"\bp_", "params.p_", " && ".join(self._chosen)) or "true")
        return f"w_{site}[j]" if random.bits == 32 else f"ops::halfWord(w_{site}[j])"
