# SPDX-License-Identifier: Apache-2.0
"""One pass of a CUDA kernel over the elements of a tile, and the calls that take the tile's values afterwards."""

from __future__ import annotations

from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.tile import CudaTile
from hipress.compll.emit.scope import c_type
from hipress.compll.emit.tile_pass import TilePass
from hipress.compll.passes import plan


class CudaPass(TilePass):
    """`computed`: spread vectors that an earlier kernel has put in memory. `summing`: the output's elements are added
    to the sum of a tile (core/ops/cuda/contributions.h)."""

    function: CudaFunction

    def __init__(self, function: CudaFunction, loop: plan.Loop, computed: set[str], *, summing: bool = False) -> None:
        super().__init__(function)
        self.summing = summing
        self.prologue: dict[str, str] = {}
        self.tile: CudaTile = CudaTile(function, self.prologue, loop.length, computed)
        self.staged: set[str] = set()
        self.reduces: list[plan.ReduceTo] = []

    def stage(self, vector: str) -> str:
        """Shared memory with the vector's elements of the tile."""
        type_, value = self.vectors.element(vector), self.tile.element(vector)
        byte = type_.kind == "bool" or (type_.kind == "uint" and type_.packed)
        kept = "uint16_t" if type_.wide else "uint8_t" if byte else c_type(type_)
        return self.array(value, kept)

    def stage_packed(self, vector: str) -> str:
        """Shared memory with the bits of a packed type's elements."""
        type_ = self.vectors.element(vector)
        if type_.kind == "uint":
            return self.stage(vector)
        return self.array(
            self.tile.variable("int32_t", self.tile.packable(self.tile.element(vector), type_)), "uint8_t"
        )

    def array(self, value: str, kept: str) -> str:
        name = f"t_{value}"
        if name not in self.staged:
            self.staged.add(name)
            # Words of several elements are read and written.
            self.tile.shared[name] = f"alignas(16) HIPRESS_SHARED {kept} {name}[cuda::kTile];"
            self.tile.lines.append(f"{name}[j] = static_cast<{kept}>({value});")
        return name

    def storable(self, vector: str) -> str:
        value = self.tile.element(vector)
        return f"({value} ? 1 : 0)" if self.vectors.element(vector).kind == "bool" else value

    def text(self) -> str:
        """The work on the tile of `count` elements that begins at `tile`."""
        lines = list(self.tile.before.values())
        if self.tile.words:
            lines += [*self.tile.words.values(), "block.sync();"]
        place = "  [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);"
        body = [place, *(f"  {line}" for line in self.tile.lines)]
        if self.tile.loads or self.tile.stores:
            loads = [load.row for load in self.tile.loads.values()]
            stores = [store.row for store in self.tile.stores.values()]
            lines += [
                *self.given(),
                *self.made(),
                "block.rows<Given, Made>(",
                f"    count, {_some('Given* given', place, loads)},",
                "    [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {",
                *(f"    {line}" for line in body),
                f"    }}, {_some('const Made* stored', place, stores)});",
            ]
        else:
            lines += ["block.elements(count, [&](unsigned j) {", *body, "});"]
        if self.tile.shared:  # the next tile uses the same shared memory
            lines += ["block.sync();", *self.after, *(["block.sync();"] if self.after else [])]
        return "\n".join(lines)

    def given(self) -> list[str]:
        """The declaration of what an element needs from memory."""
        if not self.tile.loads:
            return ["using Given = cuda::None;"]
        members = (f"{load.type} {name};" for name, load in self.tile.loads.items())
        return [f"struct Given {{ {' '.join(members)} }};"]

    def made(self) -> list[str]:
        """The declaration of what an element leaves in memory."""
        if not self.tile.stores:
            return ["using Made = cuda::None;"]
        members = (f"{store.type} {name};" for name, store in self.tile.stores.items())
        return [f"struct Made {{ {' '.join(members)} }};"]

    def loaded(self) -> str:
        """The loaded values of element i."""
        return f"Given{{{', '.join(load.text for load in self.tile.loads.values())}}}"

    def opening(self) -> str:
        """The declarations at the beginning of the kernel."""
        bad = ["[[maybe_unused]] int32_t bad = 0;"] if self.bad else []
        return "\n".join([*self.prologue.values(), *self.tile.shared.values(), *bad])

    def closing(self) -> str:
        return "if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));"


def _some(parameter: str, place: str, statements: list[str]) -> str:
    """A function that loads or stores some successive elements."""
    if not statements:
        return "cuda::Nowhere{}"
    lines = "\n".join(f"    {line}" for line in [place, *(f"  {statement}" for statement in statements)])
    return f"[&](unsigned j, [[maybe_unused]] auto some, {parameter}) {{\n{lines}\n    }}"
