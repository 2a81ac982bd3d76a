# SPDX-License-Identifier: Apache-2.0
"""One function of a codec while it is emitted for GPUs: its frame is in the device's memory, its vectors in scratch.

The frame has more members than emit/function.py names. Of filters: m_ masks, y_ counts of the tiles. Of selections of
ranks: q_ and qr_ selections, yl_ and ye_ counts of smaller and equal keys, i_ ranks; pi_ ko_ pc_ kc_ sort_ memory for
sorting. Others: c_ whether a branch runs, u_ fields of the message at addresses that their type does not allow, codes_
unpacked vectors, trits_ digits of the message before they are packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.bounds import Bounds
from hipress.compll.emit.function import Anywhere, Function
from hipress.compll.emit.target import Target
from hipress.compll.ir.expressions import TRIT
from hipress.compll.passes.vectors import Source, Stored, Vectors


@dataclass(frozen=True)
class Buffer:
    """A vector in scratch memory: the frame's member that points to it, and how many elements it has at most."""

    member: str
    type: str
    count: str


class CudaFunction(Function):
    def __init__(
        self,
        codec: str,
        body: ir.Function,
        vectors: Vectors,
        target: Target,
        *,
        decoding: bool,
        part: str,
        space: str,
    ) -> None:
        """`part`: in the symbols of the kernels; `space`: their namespace."""
        super().__init__(vectors, target, decoding=decoding)
        self.codec, self.part, self.space = codec, part, space
        self.buffers: dict[str, Buffer] = {}
        self.selected: set[str] = set()  # sorted vectors of which only single ranks are selected
        self.bounds = CudaBounds(body, vectors)
        self.bounds.statements(body.body)
        self.refusals: list[str] = []
        self.draws: set[str] = set()  # the host's conditions under which kernels draw random numbers of tiles
        self.initial: list[str] = []  # the host's lines that fill the frame `initial`
        self.aligned = _aligned(body, vectors)

    def anywhere(self) -> Anywhere:
        return _Anywhere(self)

    def symbol(self, kernel: int) -> str:
        """The text of a kernel's symbol, for the host; kernel_list() makes these symbols."""
        plain, flagged = (f'"{symbol}"' for symbol in self._symbols(kernel))
        return f"{self.flag} ? {flagged} : {plain}"

    def kernel_list(self, flags: Sequence[bool]) -> list[str]:
        """The lines that make the kernels, for these values of the template's flag."""
        return [
            f"HIPRESS_KERNEL({self._symbols(number)[flag]}, {self.space}::Kernel{number}<{str(flag).lower()}>)"
            for number in range(len(self.kernels))
            for flag in flags
        ]

    def _symbols(self, kernel: int) -> tuple[str, str]:
        name = f"{self.codec}_{self.part}"
        return f"{name}_{kernel}", f"{name}_{'accumulate' if self.decoding else 'states'}_{kernel}"

    def buffer(self, member: str, type_: str, count: str) -> str:
        """Reserves memory for the member `member`, a pointer to `type_`; returns its name."""
        self.member(member, f"{type_}*", " = nullptr")
        self.buffers.setdefault(member, Buffer(member, type_, count))
        return member

    def most(self, vector: str) -> str:
        """The text of a vector's greatest number of elements, for the host."""
        counted = self.vectors.counted(vector)
        definition = self.vectors.definitions[counted]
        return definition.count("n") if isinstance(definition, Source) else self.bounds.most[counted]

    def refusal(self, text: str) -> int:
        """The number of a reason to stop."""
        if text not in self.refusals:
            self.refusals.append(text)
        return self.refusals.index(text) + 1


def _aligned(body: ir.Function, vectors: Vectors) -> set[int]:
    """The message's items that certainly begin at a multiple of four bytes."""
    items = next((s.items for s in body.body if isinstance(s, ir.WriteMessage)), ())
    return set(range(aligned([vectors.element(i.vector) if isinstance(i, ir.Vec) else i.type for i in items])))


def aligned(parts: Sequence[ir.Scalar]) -> int:
    """How many parts of a message begin at a multiple of four bytes: the parts up to the first of smaller elements."""
    return next((number + 1 for number, element in enumerate(parts) if element.message_bytes < 4), len(parts))


class _Anywhere(Anywhere):
    def payload(self, name: str) -> str:
        type_ = self.vectors.element(name)
        if type_.packed:
            return self.unpackable(f"cuda::unpackAt(f->v_{self.names(name)}, i, {self.bits(type_)})", type_)
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
                element = part.type.element
                most = (
                    f"capacity * 8 / {self.scope.bits(element)}" if element != TRIT else "capacity * ops::kTritsOfByte"
                )
                self.most[part.name] = self.variable(part.name, "size_t", most, "most")
