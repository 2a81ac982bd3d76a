# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan as C++ statements, and the calls of the loops' kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hipress.compll import ir
from hipress.compll.emit.cpu.loop import emit_loop
from hipress.compll.emit.function import Function
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.steps import Driver, Steps
from hipress.compll.emit.target import SinkLowering
from hipress.compll.ir.expressions import FLOAT16, TRIT
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Payload


@dataclass(frozen=True)
class CpuSink(SinkLowering):
    """On a processor, threads share a loop in chunks; `per_chunk` is a statement once their number is known.

    `per_block` is a statement after the elements of a block, for a sink of a loop over blocks.
    """

    per_chunk: Callable[[Any, Any], str] | None = None
    per_block: Callable[[Any, Any], str] | None = None


def _to_message(sinks: Sequence[plan.Sink]) -> list[plan.StoreTo]:
    return [sink for sink in sinks if isinstance(sink, plan.StoreTo) and sink.place.kind == "message"]


class CpuSteps(Steps):
    """The statements of `encode` or `decode`; `f` is the frame."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.scope = Driver(function)
        self.selections: dict[str, plan.Loop] = {}  # loops that find all candidates of a vector, by its name

    def reserve(self, member: str, type_: str, count: str) -> str:
        """Reserves memory for a member of the frame; its name."""
        self.function.member(member, f"{type_}*", " = nullptr")
        self.lines.append(f"f.{member} = f.scratch.template take<{type_}>({count});")
        return member

    def reserve_vector(self, vector: str, count: str) -> str:
        return self.reserve(f"v_{self.names(vector)}", stored_type(self.vectors.element(vector)), count)

    # Loops

    def loop(self, loop: plan.Loop) -> None:
        lowered = [(sink, self.function.target.sinks[type(sink)]) for sink in loop.sinks()]
        for sink, lowering in lowered:
            if lowering.before is not None:
                lowering.before(self, sink, loop.vector)
        self.launch(loop)
        for sink, lowering in lowered:
            if lowering.after is not None:
                lowering.after(self, sink, loop.vector)
        self.hold(loop)

    def hold(self, loop: plan.Loop) -> None:
        """Notes which vectors new states and buffers hold after the loop."""
        held = self.function.held
        for sink in loop.sinks():
            if isinstance(sink, plan.StoreTo) and sink.place.kind == "state":
                held[sink.vector] = sink.place.name
            if isinstance(sink, plan.StoreTo) and sink.place == plan.Place("buffer", sink.vector):
                self.function.buffered.add(sink.vector)
        for sink in loop.sinks():
            if isinstance(sink, plan.ScatterTo) and sink.place.kind == "state":
                held.pop(sink.base, None)

    def launch(self, loop: plan.Loop) -> None:
        """Emits the loop's kernel and its call."""
        count, alignment = self.scope.count(loop.vector), "ops::kReduceBlock"
        if loop.block is not None:
            # Threads must not share a byte: eight packed results of blocks are whole bytes.
            packed = any(self.vectors.element(s.vector).packed for s in _to_message(loop.per_block))
            each = "size_t{8} * " if packed else ""
            alignment = f"ops::blockAlignment({each}ops::atLeastOne({self.text(loop.block)}))"
        if any(self.vectors.element(s.vector) == TRIT for s in _to_message(loop.sinks())):
            alignment = f"ops::kTritsOfByte * {alignment}"
        kernel = emit_loop(self.function, loop, len(self.function.kernels))
        self.lines.append("{")
        self.lines.append(f"  const ops::Chunks chunks(f.parallel, {count}, {alignment});")
        for sink in loop.sinks():
            lowering = self.function.target.sinks[type(sink)]
            statement = lowering.per_chunk(self, sink) if isinstance(lowering, CpuSink) and lowering.per_chunk else ""
            if statement:
                self.lines.append(f"  {statement}")
        self.lines += [
            "  chunks.run([&f](size_t chunk, size_t begin, size_t end) {",
            f"    multiversion<{kernel}<{self.function.flag}>::template Kernel>(&f, begin, end, chunk);",
            "  });",
            "}",
        ]

    # Sorting and indices

    def order(self, step: plan.Order) -> None:
        name, count = self.names(step.name), self.scope.count(step.vector)
        keys = f"k_{name}"
        if step.mode == "rank":
            self.function.by_rank.add(step.name)
            return
        kept = count
        if step.mode in ("take", "set"):
            assert step.count is not None
            member = self.counter(step.name)
            self.lines.append(f"f.{member} = {self.least(f'ops::asCount({self.text(step.count)})', count)};")
            kept = f"f.{member}"
        if keys not in self.function.members:  # sorted already
            self.copied(step, kept, "static_cast<int32_t>(i)")
            return
        positions = self.reserve(f"p_{name}", "uint32_t", kept)
        how = {"all": "stableOrder", "take": "smallest", "set": "smallestSet"}[step.mode]
        limit = "" if step.mode == "all" else f"{kept}, "
        if step.name in self.selections:
            self.all_candidates(step, kept)
            count = f"f.a_{name}.size()"
        self.lines.append(f"ops::{how}(f.{keys}, {count}, {limit}f.{positions});")
        if step.name in self.selections:
            self.lines.append(f"f.a_{name}.toPositions(f.{positions}, {kept});")
        self.copied(step, kept, f"static_cast<int32_t>(f.{positions}[i])")

    def all_candidates(self, step: plan.Order, kept: str) -> None:
        """If the estimated limit has left too few candidates, all elements become candidates."""
        name = self.names(step.name)
        self.lines.append(f"if (f.a_{name}.size() < {kept}) {{")
        self.lines.append(f"f.l_{name} = ops::kNoLimit<decltype(f.l_{name})>;")
        self.launch(self.selections[step.name])
        self.lines.append(f"f.k_{name} = f.a_{name}.gathered(f.scratch);")
        self.lines.append("}")

    def copied(self, step: plan.Order, kept: str, position: str) -> None:
        """The vector's elements at the positions go to memory."""
        member = self.reserve_vector(step.name, kept)
        at = self.scope.at(step.vector, position)
        self.lines.append(f"for (size_t i = 0; i < {kept}; ++i) f.{member}[i] = {at};")

    def starts(self, step: plan.Starts) -> None:
        name, widths = self.names(step.name), f"f.v_{self.names(step.widths)}"
        blocks, size = self.scope.count(step.widths), f"static_cast<size_t>(ops::atLeastOne({self.text(step.block)}))"
        count = f"ops::asCount({self.text(step.count)})"
        starts = self.reserve(f"g_{name}", "uint32_t", blocks)
        total = f"ops::blockStarts({widths}, {blocks}, {count}, {size}, f.{starts})"
        if step.words is None:
            self.lines.append(f"f.{self.counter(step.name)} = {total};")
        else:
            refuse = "refuse" if self.function.decoding else "wrong"
            text = "unpack_blocks: there are not as many words as the widths need"
            self.lines.append(f'if ({total} != {self.scope.count(step.words)}) {refuse}("{text}");')

    def check(self, step: plan.CheckIndices) -> None:
        indices, count = f"f.v_{self.names(step.indices)}", self.scope.count(step.indices)
        refuse = "refuse" if self.function.decoding else "wrong"
        size = self.scope.count(step.vector)
        increasing = "true" if step.increasing else "false"
        self.lines += [
            f"if (const std::string fault = ops::indexFault({indices}, {count}, {size}, {increasing}); !fault.empty())",
            f'  {refuse}("{step.operator}: " + fault);',
        ]

    def demand(self, step: plan.Demand, refusal: str) -> None:
        self.lines.append(f'if (!({self.text(step.condition)})) refuse("{refusal}");')

    # The message

    def begin_reading(self, fields: Sequence[ir.Field]) -> None:
        """The reader is a variable of decodeWith (codec.py)."""

    def reader_call(self, method: str, part: ir.Field, *arguments: str) -> str:
        quoted = f'"{part.name}"'
        return f"reader.{method}({', '.join([quoted, *arguments])})"

    def read_numbers(self, part: ir.Field, type_: str, counter: str) -> None:
        member = self.function.member(f"v_{self.names(part.name)}", f"const {type_}*", " = nullptr")
        self.lines.append(f"f.{member} = {self.reader_call(f'template vector<{type_}>', part, f'f.{counter}')};")

    def end_reading(self) -> None:
        self.lines.append("reader.finish();")

    # Branches

    def branch(self, step: plan.Branch) -> None:
        self.lines.append(f"if ({self.text(step.condition)}) {{")
        for side, inner in (("yes", step.yes), ("no", step.no)):
            # A check that one branch makes says nothing about the other branch.
            checked, held = self.function.gradient_checked, dict(self.function.held)
            buffered = set(self.function.buffered)
            for one in inner.steps:
                self.step(one)
            self.function.gradient_checked = checked
            self.function.buffered = buffered
            self.function.held = {vector: state for vector, state in held.items() if vector in self.function.held}
            for join in step.joins:
                self.join(join, getattr(join, side))
            self.lines.append("} else {" if side == "yes" else "}")

    def in_memory(self, vector: str) -> str:
        name, element = f"f.v_{self.names(vector)}", self.vectors.element(vector)
        if not isinstance(self.vectors.definitions[vector], Payload):
            return name
        if element == FLOAT16:
            return f"ops::widened({name}, {self.scope.count(vector)}, f.scratch)"
        if element.bits or element.width is not None:
            signed = str(element.kind == "int").lower()
            return f"ops::unpacked<{signed}>({name}, {self.scope.count(vector)}, {self.scope.bits(element)}, f.scratch)"
        return f"const_cast<{c_type(element)}*>({name})"
