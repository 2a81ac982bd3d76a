# SPDX-License-Identifier: Apache-2.0
"""How the body of a C++ kernel names what a program computes: for an element of a tile, and for a whole block."""

from __future__ import annotations

from hipress.compll import ir, plan
from hipress.compll.emit_function import FrameScope, Function
from hipress.compll.emit_scope import c_type, stored_type


class KernelScope(FrameScope):
    """Inside a kernel: scalars and parameters are copied to locals first, so that they stay in registers."""

    def __init__(self, function: Function, prologue: dict[str, str]) -> None:
        super().__init__(function)
        self.prologue = prologue

    def scalar(self, name: str) -> str:
        return self._local_copy(super().scalar(name), f"s_{self.names(name)}")

    def param(self, name: str) -> str:
        return self._local_copy(super().param(name), f"p_{name}")

    def _local_copy(self, text: str, name: str) -> str:
        self.prologue[name] = f"[[maybe_unused]] const auto {name} = {text};"
        return name


class Tile(KernelScope):
    """Element i of the tile that begins at `tile`."""

    def __init__(self, function: Function, prologue: dict[str, str], loop: plan.Loop) -> None:
        super().__init__(function, prologue)
        self.loop = loop
        self.before: dict[str, str] = {}  # what is set up before the loop over the tile
        self.spread_scope: BlockScope | None = None
        self.sources: set[str] = set()

    def position(self) -> str:
        return "(static_cast<int32_t>(tile) + static_cast<int32_t>(i))"

    def index(self, expr: ir.Index) -> str:
        inner = self.expr(expr.index)
        if inner == self.position() and self.vectors.length(expr.vector) == self.loop.length:
            return self.element(expr.vector)
        return self.at(expr.vector, inner)

    def source(self, name: str) -> str:
        self.sources.add(name)
        if name == ir.GRADIENT:
            if self.function.decoding:
                return "0.0f"
            self.prologue["scale"] = "const float scale = f->scale;"
            self.before[name] = "const float* const gradient = f->gradient + tile;"
            return "gradient[i] * scale"
        pointer = f"before_{self.names(name)}"
        self.before[name] = f"const float* const {pointer} = kStates ? f->{pointer} + tile : nullptr;"
        return f"kStates ? {pointer}[i] : 0.0f"

    def payload(self, name: str) -> str:
        type_, c_name = self.vectors.element(name), self.names(name)
        if type_.kind == "uint":
            self.before[name] = (
                f"alignas(64) int32_t u_{c_name}[kTile];\n"
                f"unpackTile<level>(f->v_{c_name}, tile, count, {self.bits(type_)}, u_{c_name});"
            )
            return f"u_{c_name}[i]"
        self.before[name] = f"const {c_type(type_)}* const v_{c_name} = f->v_{c_name} + tile;"
        return f"v_{c_name}[i]"

    def stored(self, name: str) -> str:
        type_, c_name = self.vectors.element(name), self.names(name)
        if name in self.function.by_rank:
            return self.at(name, self.position())
        self.function.member(f"v_{c_name}", f"{stored_type(type_)}*", " = nullptr")
        self.before[name] = f"const {stored_type(type_)}* const v_{c_name} = f->v_{c_name} + tile;"
        return f"v_{c_name}[i]" + (" != 0" if type_.kind == "bool" else "")

    def spread(self, access: ir.Spread) -> str:
        if self.spread_scope is not None and access.block == self.loop.block:
            return self.spread_scope.element(access.vector)
        block = f"ops::atLeastOne({self.expr(access.block)})"
        return self.at(access.vector, f"({self.position()} / {block})")

    def word(self, random: ir.Random) -> str:
        site = random.site
        self.before[f"random {site}"] = (
            f"alignas(64) uint{random.bits}_t w_{site}[kTile];\n"
            f"philoxTile<level>(f->random, {site}u, tile, count, w_{site});"
        )
        return f"w_{site}[i]" if random.bits == 32 else f"ops::halfWord(w_{site}[i])"


class BlockScope(KernelScope):
    """Block number `block` of a block-wise loop."""

    def __init__(self, function: Function, prologue: dict[str, str], results: dict[str, str]) -> None:
        super().__init__(function, prologue)
        self.results = results
        self._fresh = 100000  # the loops over elements inside see these variables

    def position(self) -> str:
        return "static_cast<int32_t>(block)"

    def source(self, name: str) -> str:
        return self.at(name, self.position())

    def payload(self, name: str) -> str:
        return self.at(name, self.position())

    def stored(self, name: str) -> str:
        return self.results[name] if name in self.results else self.at(name, self.position())

    def spread(self, access: ir.Spread) -> str:
        block = f"ops::atLeastOne({self.expr(access.block)})"
        return self.at(access.vector, f"({self.position()} / {block})")
