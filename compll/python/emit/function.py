# SPDX-License-Identifier: Apache-2.0
"""One emitted function: its frame, and functions that compute the element of a vector at any index.

The frame is a struct with the function's arguments, scalars, counts and buffers; kernels and the code between them
read and write it. Its members: s_ scalars, n_ counts, o_ offsets of the message's items, v_ vectors in memory, k_ sort
keys, p_ positions in sorted order, r_ partial results of reductions, a_ elements that the threads' filters keep.
"""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.scope import Names, Scope, c_type, constant
from hipress.compll.emit.target import Target
from hipress.compll.passes.vectors import Computed, Source, Stored, Vectors


class Function:
    """One function of a codec while it is emitted. `flag` is the template argument of its kernels."""

    def __init__(self, vectors: Vectors, target: Target, *, decoding: bool) -> None:
        self.vectors, self.target, self.names, self.decoding = vectors, target, Names(), decoding
        self.members: dict[str, str] = {}
        self.at_functions: dict[str, str] = {}
        self.functors: dict[str, str] = {}
        self.kernels: list[str] = []
        self.gradient_checked = False
        self.guard: str | None = None  # the state of which the check stands for a check of the gradient
        self.replaced: set[str] = set()  # states of which a later loop replaces elements
        self.held: dict[str, str] = {}  # vectors that earlier loops have stored to new states, with the states
        self.buffered: set[str] = set()  # vectors that earlier loops have stored to buffers
        self.by_rank: set[str] = set()  # sorted vectors that are not in memory
        self.of_one_block: set[str] = set()  # vectors of which a kernel for processors keeps the block at hand only
        self.factors = dict(vectors.function.factors)  # states, each with the parameter that multiplies its old value
        self.flag = "kAccumulate" if decoding else "kStates"

    def member(self, name: str, type_: str, initial: str = "") -> str:
        """Declares a member of the frame; returns its name."""
        known = self.members.setdefault(name, f"{type_} {name}{initial};")
        assert known.startswith(type_ + " "), (known, type_)
        return name

    def count(self, vector: str, frame: str) -> str:
        """The text of a vector's number of elements."""
        counted = self.vectors.counted(vector)
        definition = self.vectors.definitions[counted]
        if isinstance(definition, Source):
            return definition.count(f"{frame}n")
        if isinstance(definition, Computed) and isinstance(definition.op, ir.Constants):
            return f"size_t{{{len(definition.op.values)}}}"
        return frame + self.member(f"n_{self.names(counted)}", "size_t", " = 0")

    def scalar(self, name: str, type_: ir.Scalar) -> str:
        return self.member(f"s_{self.names(name)}", c_type(type_), "{}")

    def at(self, vector: str) -> str:
        """The name of the function that gives the vector's element at an index, 0 out of range."""
        name = f"at_{self.names(vector)}"
        if name not in self.at_functions:
            self.at_functions[name] = ""  # its place is before the functions that its text calls
            type_ = c_type(self.vectors.element(vector))
            self.at_functions[name] = (
                f"template <bool {self.flag}>\n"
                f"{self.target.inline} {type_} {name}([[maybe_unused]] const Frame* f, int32_t i) {{\n"
                f"{self._at_body(vector)}}}\n"
            )
        return name

    def _at_body(self, vector: str) -> str:
        definition = self.vectors.definitions[vector]
        if isinstance(definition, Computed) and isinstance(definition.op, ir.Constants):
            return _constant_at(definition.op)
        scope = self.anywhere()
        value = scope.element(vector)
        body = "\n".join(f"  {line}" for line in scope.lines)
        outside = f"i < 0 || static_cast<size_t>(i) >= {self.count(vector, 'f->')}"
        return f"  if ({outside}) return {{}};\n{body}\n  return {value};\n"

    def anywhere(self) -> Anywhere:
        """The scope of at()."""
        return Anywhere(self)

    def combine(self, op: ir.Reduce) -> str:
        """Adds a functor for the reduction; returns its name."""
        scope = FrameScope(self)
        type_ = op.function.parameters[0][1]
        (value,) = scope.call(op.function, ["a", "b"], [type_, type_])
        c, name = c_type(type_), f"Combine{len(self.functors)}"
        body = "\n".join(f"    {line}" for line in scope.lines)
        operator = f"{self.target.method}{c} operator()({c} a, {c} b) const"
        text = f"  const Frame* f;\n  {operator} {{\n{body}\n    return {value};\n  }}\n"
        for known, same in self.functors.items():
            if same == text:
                return known
        self.functors[name] = text
        return name


#: Tables of at most this many elements are choices between constants, which vector registers make faster than memory.
FEW = 8


def _constant_at(op: ir.Constants) -> str:
    """The body of a table's function. The array is local, so that a kernel for GPUs has it in the GPU's memory; a zero
    for places out of range is its last element, so that no branch is needed."""
    values, count = [constant(value, op.type) for value in (*op.values, 0)], len(op.values)
    at = f"  const uint32_t at = ops::lesser(static_cast<uint32_t>(i), {count}u);\n"
    if count <= FEW:
        return f"{at}  return {_chosen(values, 0)};\n"
    array = f"static constexpr {c_type(op.type)} values[] = {{{', '.join(values)}}};"
    return f"  {array}\n{at}  return values[at];\n"


def _chosen(values: list[str], first: int) -> str:
    """The value of number `at`, of values that begin with number `first`."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    low, high = _chosen(values[:half], first), _chosen(values[half:], first + half)
    return f"(at < {first + half} ? {low} : {high})"


class FrameScope(Scope):
    """Text that reads the frame `f` member by member."""

    frame = "f->"

    def __init__(self, function: Function) -> None:
        super().__init__(function.vectors, function.names)
        self.function = function

    def scalar(self, name: str) -> str:
        return f"{self.frame}s_{self.names(name)}"

    def param(self, name: str) -> str:
        return f"{self.frame}params.p_{name}"

    def count(self, vector: str) -> str:
        return self.function.count(vector, self.frame)

    def at(self, vector: str, index: str) -> str:
        pointer = "f" if self.frame == "f->" else "&f"
        return f"{self.function.at(vector)}<{self.function.flag}>({pointer}, {index})"

    def old_state(self, name: str, before: str) -> str:
        """The value of a state's element that a program reads; `before`: the element in memory."""
        if name in self.function.factors:
            before = f"{self.param(self.function.factors[name])} * {before}"
        return f"kStates ? {before} : 0.0f"

    def step(self) -> str:
        return f"ops::stepNumber({self.frame}random)"

    def position(self) -> str:
        return "0"

    def word(self, random: ir.Random) -> str:
        function = "philoxWord" if random.bits == 32 else "philoxHalfWord"
        key = f"{self.frame}random{'.ofAllRanks()' if random.shared else ''}"
        return f"ops::{function}({key}, {random.site}u, static_cast<uint64_t>({self.position()}))"


class Anywhere(FrameScope):
    """The element at index i."""

    def position(self) -> str:
        return "i"

    def source(self, name: str) -> str:
        if name == ir.GRADIENT:
            return "0.0f" if self.function.decoding else "f->gradient[i] * f->scale"
        return self.old_state(name, f"f->before_{self.names(name)}[i]")

    def payload(self, name: str) -> str:
        type_ = self.vectors.element(name)
        if type_.packed:
            code = f"ops::unpackElement(f->v_{self.names(name)}, static_cast<size_t>(i), {self.bits(type_)})"
            return self.unpackable(code, type_)
        return self.unpackable(f"f->v_{self.names(name)}[i]", type_)

    def stored(self, name: str) -> str:
        definition = self.vectors.definitions[name]
        assert isinstance(definition, Stored)
        if isinstance(definition.op, ir.Sort) and name in self.function.by_rank:
            keys, count = f"f->k_{self.names(name)}", self.count(name)
            place = f"static_cast<int32_t>(ops::positionOfRank({keys}, {count}, static_cast<size_t>(i)))"
            return self.at(definition.op.vector, place)
        return f"f->v_{self.names(name)}[i]" + (" != 0" if self.vectors.element(name).kind == "bool" else "")

    def spread(self, access: ir.Spread) -> str:
        block = f"ops::atLeastOne({self.expr(access.block)})"
        return self.at(access.vector, f"(i / {block})")
