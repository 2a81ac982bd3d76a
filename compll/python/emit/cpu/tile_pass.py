# SPDX-License-Identifier: Apache-2.0
"""One pass over the elements of a tile on a processor, and the calls that take its arrays afterwards.

A pass with reductions computes kLanes elements at a time and combines them in registers (core/ops/cpu/lane_group.h).
Other values go through arrays of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.cpu.cuts import loops
from hipress.compll.emit.cpu.tile import CpuTile
from hipress.compll.emit.tile_pass import TilePass


@dataclass(frozen=True)
class _Array:
    """An array with a value of each element."""

    name: str
    type: str
    value: str
    states_only: bool = False  # whether the array is needed only where the codec keeps states

    @property
    def narrow(self) -> bool:
        return self.type in ("uint8_t", "uint16_t")

    def declaration(self, length: str) -> str:
        return f"alignas(64) {self.type} {self.name}[{length}];"


@dataclass(frozen=True)
class _Check:
    """A number that a loop keeps about its values, and the statement that counts values that are not finite."""

    name: str
    combine: str
    counted: str


_COUNT = _Check("bad", "Sum", "allBad += bad;")
_GREATEST = _Check("greatest", "Greatest", "allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;")


class CpuPass(TilePass):
    def __init__(self, tile: CpuTile) -> None:
        super().__init__(tile.function)
        self.tile: CpuTile = tile
        self.epilogue: list[str] = []  # statements at the end of the kernel
        self._bounded = False  # whether the loop finds the greatest of the magnitudes that must be finite
        self._arrays: dict[str, _Array] = {}  # arrays of the tile
        self._lanes: dict[str, _Array] = {}  # arrays of kLanes elements
        self._feeds: list[tuple[str, str]] = []  # reducers, each with the array that it takes
        self._combines: list[tuple[str, str]] = []  # the same for arrays of kLanes elements

    def check(self, value: str, condition: str = "", *, exact: bool = False) -> None:
        """The greatest magnitude costs half of the instructions of a count."""
        if exact:
            super().check(value, condition, exact=True)
        else:
            self.tile.lines.append(f"{condition}greatest = ops::greaterMagnitude(greatest, {value});")
            self._bounded = True

    def _checks(self) -> list[_Check]:
        return [*([_COUNT] if self.bad else []), *([_GREATEST] if self._bounded else [])]

    def storable(self, vector: str) -> str:
        value = self.tile.element(vector)
        if self.vectors.element(vector).kind == "bool":
            return self.tile.variable("int32_t", f"{value} ? 1 : 0")
        return value

    def packable(self, vector: str) -> str:
        """The vector's element as a message holds it, before it is packed."""
        value = self.tile.element(vector)
        text = self.tile.packable(value, self.vectors.element(vector))
        return self.tile.variable("int32_t", text) if text != value else value

    def array(self, value: str, type_: str, *, states_only: bool = False) -> str:
        """An array of the tile that gets `value` for every element."""
        prefix = "" if type_ == "float" or type_ == "int32_t" else "codes_"
        return "t." + _add(self._arrays, prefix, type_, value, states_only=states_only)

    def reduce(self, reducer: str, value: str, type_: str, *, in_registers: bool) -> None:
        if in_registers:
            self._combines.append((reducer, _add(self._lanes, "lanes_", type_, value)))
        else:
            self._feeds.append((reducer, self.array(value, type_)))

    def text(self) -> str:
        """The body of the loop over tiles."""
        lines = [*self.tile.before.values()]
        if self._arrays:  # one object: one register addresses all of them
            arrays = (f"  {array.declaration('kTile + kApart')}" for array in self._arrays.values())
            lines += ["struct {", *arrays, "} t;"]
        if ir.GRADIENT in self.tile.before:
            lines = [*self._prefetch(any("philoxTile" in line for line in lines)), *lines]
        lines += self._by_lanes() if self._combines else self._by_elements()
        lines += [f"{reducer}.feed({array}, count);" for reducer, array in self._feeds]
        return "\n".join([*lines, *self.after])

    def _prefetch(self, random: bool) -> list[str]:
        """Asks for the next elements where memory would be idle: while a loop computes random numbers, or computes on
        blocks that it has in the first cache."""
        loop = self.tile.loop
        if loop.block is None or not (loop.first and loop.second):
            return ["prefetchTile<kTile>(f->gradient + tile + kTile);"] if random else []
        if self.tile.block_scope is None:
            return []
        lines = ["if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);"]
        for state in self._states():
            before = f"f->before_{self.names(state)} + tile + ahead"
            lines.append(f"if (kStates && ahead != 0) prefetchElements({before}, count);")
        return lines

    def _states(self) -> list[str]:
        return sorted(self.tile.sources - {ir.GRADIENT})

    def memory(self) -> list[tuple[str, str]]:
        """The gradient and the states that the pass reads: a condition, and the pointer to the elements."""
        states = [("if (kStates) ", f"f->before_{self.names(state)}") for state in self._states()]
        return [("", "f->gradient"), *states] if ir.GRADIENT in self.tile.before else states

    def _by_elements(self) -> list[str]:
        if not self.tile.lines and not self._arrays:
            return []
        kept = [_kept(array) for array in self._arrays.values()]
        loop = self._for_factors(loops([*self.tile.lines, *kept], self.tile.reads_from, self.tile.look_ups()))
        for check in self._checks():
            loop = [f"int32_t {check.name} = 0;", *loop, check.counted]
        return loop

    def _for_factors(self, loop: list[str]) -> list[str]:
        """Two loops if states have factors. Few users choose other factors than 1, and multiplying each element takes
        3 % of the time of a codec that is almost as fast as memory."""
        if not self.tile.factors:
            return loop
        plain = " && ".join(f"{factor} == 1.0f" for factor in sorted(self.tile.factors))
        return [
            "const auto elements = [&](auto multiply) {",
            *(f"  {line}" for line in loop),
            "};",
            f"if (!kStates || ({plain})) {{",
            "  elements(std::false_type{});",
            "} else {",
            "  elements(std::true_type{});",
            "}",
        ]

    def _by_lanes(self) -> list[str]:
        """The text for whole groups of kLanes elements, and for the elements after the last whole group."""
        narrow = [array for array in self._arrays.values() if array.narrow]
        # In a loop with elements of one and of four bytes GCC would choose its registers for the smaller elements.
        wide = [_Array(f"lanes_{array.name}", "int32_t", array.value) for array in narrow]
        lanes = [*self._lanes.values(), *wide]
        declarations = [array.declaration("kLanes") for array in lanes]
        reducers = {reducer: f"group_{reducer}" for reducer, _ in self._combines}
        before = [f"auto {group} = {reducer}.lanes();" for reducer, group in reducers.items()]
        if self.tile.factors:
            before.append("const std::true_type multiply;")
        element = [
            *self.tile.lines,
            *(f"{array.name}[lane] = {array.value};" for array in lanes),
            *(_kept(array) for array in self._arrays.values() if not array.narrow),
        ]
        combine = [f"{reducers[reducer]}.combine({array});" for reducer, array in self._combines]
        after = [f"{group}.store();" for group in reducers.values()]
        after += [f"{reducer}.combined(whole);" for reducer in reducers]
        rest = [f"{reducer}.feed({array}, count - whole);" for reducer, array in self._combines]
        for check in self._checks():
            name = check.name
            declarations.append(f"alignas(64) int32_t lanes_{name}[kLanes] = {{}};")
            element.insert(0, f"int32_t& {name} = lanes_{name}[lane];")
            before.append(f"alignas(64) int32_t all_{name}[kLanes] = {{}};")
            before.append(f"LaneGroup<level, int32_t, ops::{check.combine}> group_{name}(all_{name}, true);")
            combine.append(f"group_{name}.combine(lanes_{name});")
            after += [f"group_{name}.store();", f"for (const int32_t {name} : all_{name}) {check.counted}"]
            rest.append(f"for (const int32_t {name} : lanes_{name}) {check.counted}")
        return [
            *before,
            "const size_t whole = count / kLanes * kLanes;",
            "for (size_t group = 0; group < whole; group += kLanes) {",
            *(f"  {line}" for line in declarations),
            "#pragma GCC ivdep",
            "  for (size_t lane = 0; lane < kLanes; ++lane) {",
            "    const size_t i = group + lane;",
            *(f"    {line}" for line in element),
            "  }",
            *(f"  {line}" for line in combine),
            *(f"  narrowLanes<level>(lanes_{array.name}, t.{array.name} + group);" for array in narrow),
            "}",
            *after,
            "if (whole != count) {",
            *(f"  {line}" for line in declarations),
            "  for (size_t lane = 0; lane < count - whole; ++lane) {",
            "    const size_t i = whole + lane;",
            *(f"    {line}" for line in element),
            *(f"    t.{array.name}[i] = static_cast<{array.type}>(lanes_{array.name}[lane]);" for array in narrow),
            "  }",
            *(f"  {line}" for line in rest),
            "}",
        ]


def _add(arrays: dict[str, _Array], prefix: str, type_: str, value: str, *, states_only: bool = False) -> str:
    """The name of the array: the value's name, or a number where the value is no name but an expression."""
    name = prefix + (value if value.isidentifier() else f"value{len(arrays)}")
    states_only = states_only and (name not in arrays or arrays[name].states_only)
    arrays[name] = _Array(name, type_, value, states_only)
    return name


def _kept(array: _Array) -> str:
    value = f"static_cast<{array.type}>({array.value})" if array.narrow else array.value
    return f"{'if (kStates) ' if array.states_only else ''}t.{array.name}[i] = {value};"
