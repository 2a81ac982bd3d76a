# SPDX-License-Identifier: Apache-2.0
"""One function of a codec while it is emitted for GPUs: its frame is in the device's memory, its vectors in scratch.

More members of the frame than emit_function.py names: m_ masks of filters, y_ their tiles' counts, q_ and qr_
selections of ranks, yl_ and ye_ counts of smaller and equal keys, i_ ranks, pi_ ko_ pc_ kc_ sort_ what sorting needs,
c_ whether a branch runs, u_ fields of the message at addresses that their type does not allow, codes_ unpacked vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit_bounds import Bounds
from hipress.compll.emit_function import Anywhere, FrameScope, Function
from hipress.compll.vectors import Source, Stored, Vectors


@dataclass(frozen=True)
class Buffer:
    """A vector in scratch memory: the frame's member that points to it, and how many elements it has at most."""

    member: str
    type: str
    count: str


class CudaFunction(Function):
    inline, method = "HIPRESS_DEVICE inline", "HIPRESS_DEVICE "

    def __init__(self, body: ir.Function, vectors: Vectors, *, decoding: bool) -> None:
        super().__init__(vectors, decoding=decoding)
        self.buffers: dict[str, Buffer] = {}
        self.selected: set[str] = set()  # sorted vectors of which ranks are selected, not all sorted
        self.bounds = CudaBounds(body, vectors)
        self.bounds.statements(body.body)
        self.refusals: list[str] = []
        self.initial: list[str] = []  # the host's lines that fill the frame `initial`
        self.aligned = _aligned(body, vectors)

    def anywhere(self) -> Anywhere:
        return _Anywhere(self)

    def buffer(self, member: str, type_: str, count: str) -> str:
        """Sets memory aside for a member `member` of type `type_`*; its name."""
        self.member(member, f"{type_}*", " = nullptr")
        self.buffers.setdefault(member, Buffer(member, type_, count))
        return member

    def most(self, vector: str) -> str:
        """The text, on the host, of the most elements that a vector has."""
        counted = self.vectors.counted(vector)
        return "n" if isinstance(self.vectors.definitions[counted], Source) else self.bounds.most[counted]

    def refusal(self, text: str) -> int:
        """The number of a reason to stop."""
        if text not in self.refusals:
            self.refusals.append(text)
        return self.refusals.index(text) + 1


def _aligned(body: ir.Function, vectors: Vectors) -> set[int]:
    """The message's items that certainly begin at a multiple of four bytes."""
    items = next((s.items for s in body.body if isinstance(s, ir.WriteMessage)), ())
    found: set[int] = set()
    for number, item in enumerate(items):
        found.add(number)
        type_ = vectors.element(item.vector) if isinstance(item, ir.Vec) else item.type
        if type_.kind == "uint":
            break
    return found


class _Anywhere(Anywhere):
    def payload(self, name: str) -> str:
        type_ = self.vectors.element(name)
        if type_.kind == "uint":
            return f"cuda::unpackAt(f->v_{self.names(name)}, i, {self.bits(type_)})"
        return super().payload(name)

    def stored(self, name: str) -> str:
        definition = self.vectors.definitions[name]
        assert isinstance(definition, Stored)
        if isinstance(definition.op, ir.Sort) and name in self.function.by_rank:
            return self.at(definition.op.vector, f"static_cast<int32_t>(f->p_{self.names(name)}[i])")
        return super().stored(name)


class CudaBounds(Bounds):
    """In decode, `capacity` is how many bytes the payload may have."""

    def statements(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            if not isinstance(statement, ir.Extract):
                super().statements((statement,))
                continue
            for part in statement.fields:
                if not isinstance(part.type, ir.Vector):
                    continue
                length = None if part.length is None else self.known(part.length)
                if length is not None:
                    text = f"ops::asCount({length})"
                    self.scope.sizes[part.name] = self.variable(part.name, "size_t", text, "n")
                bits = self.scope.bits(part.type.element)
                self.most[part.name] = self.variable(part.name, "size_t", f"capacity * 8 / {bits}", "most")


class KernelScope(FrameScope):
    """Inside a kernel: scalars and parameters are copied to locals first."""

    def __init__(self, function: CudaFunction, prologue: dict[str, str]) -> None:
        super().__init__(function)
        self.prologue = prologue

    def scalar(self, name: str) -> str:
        return self.copied(super().scalar(name), f"s_{self.names(name)}")

    def param(self, name: str) -> str:
        return self.copied(super().param(name), f"p_{name}")

    def pointer(self, member: str) -> str:
        """A local copy of a pointer of the frame."""
        return self.copied(f"f->{member}", member)

    def copied(self, text: str, name: str) -> str:
        self.prologue[name] = f"[[maybe_unused]] const auto {name} = {text};"
        return name


def indented(text: str, by: int) -> str:
    return "\n".join(line if line.startswith("#") or not line else " " * by + line for line in text.split("\n"))
