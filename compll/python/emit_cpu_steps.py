# SPDX-License-Identifier: Apache-2.0
"""The steps of a plan between its loops, and the calls of the loops' kernels."""

from __future__ import annotations

from hipress.compll import ir, plan
from hipress.compll.emit_cpu_loop import combine_functor, emit_loop
from hipress.compll.emit_function import FrameScope, Function
from hipress.compll.emit_scope import c_type, stored_type
from hipress.compll.vectors import Payload


class _Driver(FrameScope):
    frame = "f."


class Steps:
    """Emits a plan as the statements of `encode` or `decode`; `f` is the frame."""

    def __init__(self, function: Function, codec: str) -> None:
        self.function, self.codec = function, codec
        self.vectors, self.names = function.vectors, function.names
        self.scope: FrameScope = _Driver(function)
        self.lines: list[str] = []

    def emit(self, steps: list[plan.Step], items: tuple[ir.Vec | ir.Expr, ...] = ()) -> list[str]:
        """Statements; `items` is what the message is made of."""
        self.items = items
        for step in steps:
            self.step(step)
        return self.lines

    def text(self, expr: ir.Expr) -> str:
        value = self.scope.expr(expr)
        self.lines += self.scope.lines
        self.scope.lines = []
        return value

    def step(self, step: plan.Step) -> None:
        match step:
            case plan.Loop():
                self.loop(step)
            case plan.Scalar():
                self.lines.append(f"f.{self.function.scalar(step.name, step.type)} = {self.text(step.value)};")
            case plan.Count():
                self.count(step)
            case plan.Offset():
                member = self.function.member(f"o_{step.item}", "size_t", " = 0")
                self.lines.append(f"f.{member} = {self.size(self.items[: step.item])};")
            case plan.Order():
                self.order(step)
            case plan.CheckIndices():
                self.check(step)
            case plan.Read():
                self.read(step)
            case plan.Demand():
                refusal = f"the requirement in line {step.line} does not hold"
                self.lines.append(f'if (!({self.text(step.condition)})) refuse("{refusal}");')
            case plan.Branch():
                self.branch(step)
            case plan.Finish():
                self.finish(step)

    def count(self, step: plan.Count) -> None:
        member = self.function.member(f"n_{self.names(step.vector)}", "size_t", " = 0")
        value = self.text(step.value)
        if step.kind == "blocks":
            self.lines.append(f"f.{member} = ops::blockCount({self.scope.count(step.of)}, ops::atLeastOne({value}));")
            self.take(step.vector, f"f.{member}")
        elif step.kind == "take":
            self.lines.append(f"f.{member} = std::min(ops::asCount({value}), {self.scope.count(step.of)});")
        else:
            self.lines.append(f"f.{member} = ops::asCount({value});")

    def take(self, vector: str, count: str) -> str:
        """Sets memory aside for a vector."""
        type_ = stored_type(self.vectors.element(vector))
        member = self.function.member(f"v_{self.names(vector)}", f"{type_}*", " = nullptr")
        self.lines.append(f"f.{member} = f.scratch.template take<{type_}>({count});")
        return member

    # Loops

    def loop(self, loop: plan.Loop) -> None:
        count = self.scope.count(loop.vector)
        alignment = "ops::kReduceBlock"
        if loop.block is not None:
            alignment = f"ops::blockAlignment(ops::atLeastOne({self.text(loop.block)}))"
        for sink in loop.sinks():
            self.before(sink, count)
        kernel = emit_loop(self.function, loop, len(self.function.kernels))
        self.lines.append("{")
        self.lines.append(f"  const ops::Chunks chunks(f.parallel, {count}, {alignment});")
        for sink in loop.sinks():
            if isinstance(sink, plan.FilterTo):
                self.lines.append(f"  f.a_{self.names(sink.name)}.resize(chunks.count());")
        self.lines += [
            "  chunks.run([&f](size_t chunk, size_t begin, size_t end) {",
            f"    multiversion<{kernel}<{self.function.flag}>::template Kernel>(&f, begin, end, chunk);",
            "  });",
            "}",
        ]
        for sink in loop.sinks():
            self.after(sink, count)

    def before(self, sink: plan.Sink, count: str) -> None:
        match sink:
            case plan.ReduceTo(name=name, op=op):
                type_ = c_type(op.function.parameters[0][1])
                member = self.function.member(f"r_{self.names(name)}", f"{type_}*", " = nullptr")
                self.lines.append(f"f.{member} = f.scratch.template take<{type_}>({count} / ops::kReduceBlock + 1);")
            case plan.KeysTo(name=name, op=op):
                type_ = "uint64_t" if op.key.results[0].type.kind == "double" else "uint32_t"
                member = self.function.member(f"k_{self.names(name)}", f"{type_}*", " = nullptr")
                self.lines.append(f"f.{member} = f.scratch.template take<{type_}>({count});")
            case plan.StoreTo(target=plan.Target(kind="buffer", name=name), vector=vector):
                type_ = stored_type(self.vectors.element(vector))
                member = self.function.member(f"v_{self.names(name)}", f"{type_}*", " = nullptr")
                self.lines.append(f"f.{member} = f.scratch.template take<{type_}>({count});")
            case plan.ScatterTo(target=plan.Target(kind="gradient")):
                self.lines.append("if (!kAccumulate) std::fill_n(f.output, f.n, 0.0f);")

    def after(self, sink: plan.Sink, count: str) -> None:
        match sink:
            case plan.ReduceTo(name=name, op=op):
                combine = combine_functor(self.function, op)
                functor = combine + ("{&f}" if combine.startswith("Combine") else "{}")
                scalar = self.function.scalar(name, op.function.results[0].type)
                partials = f"f.r_{self.names(name)}, ops::blockCount({count}, ops::kReduceBlock)"
                reduced = f"ops::reducePartials({partials}, {functor})"
                self.lines += [
                    f"f.{scalar} = {self.text(op.init)};",
                    f"if ({count} != 0) f.{scalar} = {functor}(f.{scalar}, {reduced});",
                ]
            case plan.FilterTo(name=name):
                member = self.function.member(f"n_{self.names(name)}", "size_t", " = 0")
                gathered = f"f.a_{self.names(name)}.gathered(f.scratch, f.{member})"
                self.lines.append(f"f.v_{self.names(name)} = {gathered};")

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
            member = self.function.member(f"n_{name}", "size_t", " = 0")
            self.lines.append(f"f.{member} = std::min(ops::asCount({self.text(step.count)}), {count});")
            kept = f"f.{member}"
        sorted_already = keys not in self.function.members
        source = self.vectors.sorted(step.vector)
        if (
            sorted_already and source is not None and step.vector not in self.function.by_rank and step.mode == "take"
        ) or sorted_already:
            self.copied(step, kept)
        else:
            positions = self.function.member(f"p_{name}", "uint32_t*", " = nullptr")
            how = {"all": "stableOrder", "take": "smallest", "set": "smallestSet"}[step.mode]
            limit = "" if step.mode == "all" else f"{kept}, "
            self.lines += [
                f"f.{positions} = f.scratch.template take<uint32_t>({kept});",
                f"ops::{how}(f.{keys}, {count}, {limit}f.{positions});",
            ]
            self.copied(step, kept, f"static_cast<int32_t>(f.{positions}[i])")

    def copied(self, step: plan.Order, kept: str, position: str = "static_cast<int32_t>(i)") -> None:
        """The vector's elements at the positions."""
        member = self.take(step.name, kept)
        at = self.scope.at(step.vector, position)
        self.lines.append(f"for (size_t i = 0; i < {kept}; ++i) f.{member}[i] = {at};")

    def check(self, step: plan.CheckIndices) -> None:
        indices, count = f"f.v_{self.names(step.indices)}", self.scope.count(step.indices)
        refuse = "refuse" if self.function.decoding else "wrong"
        size = self.scope.count(step.vector)
        increasing = "true" if step.operator == "scatter" else "false"
        self.lines += [
            f"if (const std::string fault = ops::indexFault({indices}, {count}, {size}, {increasing}); !fault.empty())",
            f'  {refuse}("{step.operator}: " + fault);',
        ]

    # The message

    def size(self, items: tuple[ir.Vec | ir.Expr, ...]) -> str:
        parts = []
        for item in items:
            if isinstance(item, ir.Vec):
                bits = self.scope.bits(self.vectors.element(item.vector))
                parts.append(f"ops::packedBytes({self.scope.count(item.vector)}, {bits})")
            else:
                parts.append("1" if item.type.kind == "uint" else "4")
        return " + ".join(parts) or "0"

    def finish(self, step: plan.Finish) -> None:
        for number, item in enumerate(step.items):
            if isinstance(item, ir.Vec):
                continue
            type_ = "uint8_t" if item.type.kind == "uint" else c_type(item.type)
            at = self.size(step.items[:number])
            self.lines.append(f"ops::putScalar<{type_}>(f.message + {at}, static_cast<{type_}>({self.text(item)}));")
        self.lines.append(f"f.bytes = {self.size(step.items)};")

    def read(self, step: plan.Read) -> None:
        for part in step.fields:
            name = self.names(part.name)
            element = part.type.element if isinstance(part.type, ir.Vector) else part.type
            bits = self.scope.bits(element)
            if not isinstance(part.type, ir.Vector):
                member = self.function.scalar(part.name, element)
                kind = "Uint" if element.kind == "uint" else "Int" if element.kind == "int" else "Float"
                extra = f", {bits}" if kind == "Uint" else ""
                self.lines.append(f'f.{member} = reader.scalar{kind}("{part.name}"{extra});')
                continue
            count = self.function.member(f"n_{name}", "size_t", " = 0")
            if part.length is None:
                self.lines.append(f'f.{count} = reader.rest("{part.name}", {bits});')
            else:
                self.lines.append(f'f.{count} = reader.count("{part.name}", {self.text(part.length)});')
            type_ = "const uint8_t*" if element.kind == "uint" else f"const {c_type(element)}*"
            self.function.member(f"v_{name}", type_, " = nullptr")
            kind = "packed" if element.kind == "uint" else f"template vector<{c_type(element)}>"
            extra = f", {bits}" if element.kind == "uint" else ""
            self.lines.append(f'f.v_{name} = reader.{kind}("{part.name}", f.{count}{extra});')
        self.lines.append("reader.finish();")

    def branch(self, step: plan.Branch) -> None:
        self.lines.append(f"if ({self.text(step.condition)}) {{")
        for side, inner in (("yes", step.yes), ("no", step.no)):
            # What a branch checks says nothing about the other one.
            checked = self.function.gradient_checked
            for one in inner.steps:
                self.step(one)
            self.function.gradient_checked = checked
            for join in step.joins:
                self.join(join, getattr(join, side))
            self.lines.append("} else {" if side == "yes" else "}")

    def join(self, join: ir.Join, source: str) -> None:
        if isinstance(join.type, ir.Vector):
            type_ = stored_type(join.type.element)
            member = self.function.member(f"v_{self.names(join.name)}", f"{type_}*", " = nullptr")
            count = self.function.member(f"n_{self.names(join.name)}", "size_t", " = 0")
            self.lines.append(f"f.{member} = {self.in_memory(source)};")
            self.lines.append(f"f.{count} = {self.scope.count(source)};")
        else:
            member = self.function.scalar(join.name, join.type)
            self.lines.append(f"f.{member} = {self.scope.scalar(source)};")

    def in_memory(self, vector: str) -> str:
        definition = self.vectors.definitions[vector]
        name = f"f.v_{self.names(vector)}"
        element = self.vectors.element(vector)
        if isinstance(definition, Payload) and element.kind == "uint":
            return f"ops::unpacked({name}, {self.scope.count(vector)}, {self.scope.bits(element)}, f.scratch)"
        return f"const_cast<{c_type(element)}*>({name})" if isinstance(definition, Payload) else name
