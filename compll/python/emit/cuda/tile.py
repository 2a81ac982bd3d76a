# SPDX-License-Identifier: Apache-2.0
"""How the body of a CUDA kernel names the values of an element."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.tile import Tile
from hipress.compll.passes.vectors import Payload


class CudaTile(Tile):
    """Element i, which is element j of the tile."""

    def __init__(self, function: CudaFunction, prologue: dict[str, str], length: str, computed: set[str]) -> None:
        super().__init__(function, prologue, length)
        self.computed = computed  # spread vectors that an earlier kernel has put in memory
        self.loads: dict[str, tuple[str, str]] = {}  # types and texts of what an element needs from memory
        self.shared: dict[str, str] = {}  # declarations of shared memory
        self.words: dict[int, str] = {}  # statements that draw a tile's random numbers
        self.blocks: dict[str, str] = {}  # names of the objects that number a tile's blocks, by block size

    def position(self) -> str:
        return "i"

    def pointer(self, member: str) -> str:
        """A local copy of a pointer of the frame."""
        return self.copied(f"f->{member}", member)

    def loaded(self, member: str, type_: str, *, states_only: bool = False) -> str:
        text = f"cuda::load({self.pointer(member)} + i)"
        return self.given(member, type_, f"kStates ? {text} : {type_}{{}}" if states_only else text)

    def unpacked(self, name: str) -> str:
        pointer = self.pointer(f"v_{self.names(name)}")
        bits = self.bits(self.vectors.element(name))
        return self.given(f"code_{self.names(name)}", "int32_t", f"cuda::unpackAt({pointer}, i, {bits})")

    def given(self, name: str, type_: str, text: str) -> str:
        """The value `text` of element i, which is loaded before anything is computed."""
        self.loads[name] = (type_, text)
        return f"given.{name}"

    def spread(self, access: ir.Spread) -> str:
        size = f"ops::atLeastOne({self.expr(access.block)})"
        if size not in self.blocks:
            self.blocks[size] = f"blocks{len(self.blocks)}"
            name = f"size_{self.blocks[size]}"
            self.prologue[name] = f"const cuda::BlockSize {name}(static_cast<size_t>({size}));"
            self.before[self.blocks[size]] = f"const cuda::TileBlocks {self.blocks[size]}(tile, {name});"
        number = f"{self.blocks[size]}.of(j)"
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

    def word(self, random: ir.Random) -> str:
        site = random.site
        self.shared[f"w_{site}"] = f"HIPRESS_SHARED uint{random.bits}_t w_{site}[cuda::kTile];"
        key = "random.ofAllRanks()" if random.shared else "random"
        self.words[site] = self.where_chosen(f"cuda::philoxTile(block, {key}, {site}u, tile, count, w_{site});")
        self.prologue["random"] = "const ops::RandomKey random = f->random;"
        return f"w_{site}[j]" if random.bits == 32 else f"ops::halfWord(w_{site}[j])"
