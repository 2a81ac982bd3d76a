# SPDX-License-Identifier: Apache-2.0
"""A plan as kernels, and as the host's lines that launch them.

Nothing of what depends on the data comes back to the host: scalars are computed on the device; grids are as large as
the most elements need, and kernels look at the real counts. Steps that need one thread, or one thread block, follow in
the kernel before them, done by its last thread block. Once the frame's `stop` is set, nothing happens any more; nor
does what belongs to a branch that is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll import ir, plan
from hipress.compll.emit_cuda_blocks import blocks_kernels, single_elements
from hipress.compll.emit_cuda_function import CudaFunction, indented
from hipress.compll.emit_cuda_loop import plain_kernel, spread_vectors
from hipress.compll.emit_cuda_order import OrderSteps, only_ranks
from hipress.compll.emit_function import FrameScope
from hipress.compll.emit_scope import c_type, stored_type
from hipress.compll.vectors import Payload, parts


class _Serial(FrameScope):
    """In one thread of a kernel."""

    frame = "f."

    def __init__(self, function: CudaFunction) -> None:
        super().__init__(function)
        self.selected: dict[ir.Index, str] = {}

    def index(self, expr: ir.Index) -> str:
        return self.selected[expr] if expr in self.selected else super().index(expr)


class CudaSteps(OrderSteps):
    def __init__(self, function: CudaFunction, codec: str, body: tuple[ir.Statement, ...]) -> None:
        super().__init__(function, codec)
        self.function: CudaFunction = function
        self.serial = self.scope = _Serial(function)
        self.host: list[str] = []
        self.body, self.grid = "", "1"  # the next kernel: what all thread blocks do, and how many there are
        self.block = ["block.once([&] { *frame = initial; });\nblock.sync();"]  # and what one of them does then
        self.guard = "f->stop == 0"
        self.checked: set[tuple[str, str, bool]] = set()
        function.selected = only_ranks(body)

    # Kernels

    def settle(self) -> None:
        """Collected lines of one thread become a statement of one thread block."""
        if self.lines:
            lines, self.lines = self.lines, []
            text = indented("\n".join(lines), 4)
            guard = self.guard.replace("f->", "f.")
            self.block.append(
                f"block.once([&] {{\n  Frame& f = *frame;\n  if ({guard}) {{\n{text}\n  }}\n}});\nblock.sync();"
            )

    def one_block(self, statement: str) -> None:
        self.settle()
        self.block.append(f"if ({self.guard}) {{\n{indented(statement, 2)}\n}}")

    def kernel(self, body: str, most: str) -> None:
        self.flush()
        self.body = f"if ({self.guard}) {{\n{indented(body, 2)}\n}}"
        self.grid = f"cuda::gridFor({most})"

    def flush(self) -> None:
        """Ends a kernel. What one thread block has to do is done by the last one of the grid before."""
        self.settle()
        if not self.body and not self.block:
            return
        after = "\n".join(self.block)
        if self.body and after:
            after = f"if (block.last(&f->ticket)) {{\n{indented(after, 2)}\n}}"
        text = "\n".join(filter(None, [self.body, after]))
        function, number = self.function, len(self.function.kernels)
        first = number == 0
        function.kernels.append(
            f"template <bool {function.flag}>\nstruct Kernel{number} {{\n  Frame* frame;\n"
            + ("  Frame initial;  // as far as the host knows it\n" if first else "")
            + "  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {\n"
            f"    [[maybe_unused]] Frame* const f = frame;\n{indented(text, 4)}\n  }}\n}};\n"
        )
        frame = "frame, initial" if first else "frame"
        self.host.append(f"cuda::launch(stream, {self.grid}, Kernel{number}<{function.flag}>{{{frame}}});")
        self.body, self.grid, self.block = "", "1", []

    # Steps that are not as on processors

    def step(self, step: plan.Step) -> None:
        match step:
            case plan.Scalar():
                self.select_ranks(step.value)
                super().step(step)
            case plan.Demand():
                code = self.function.refusal(f"the requirement in line {step.line} does not hold")
                self.lines.append(f"if (f.stop == 0 && !({self.text(step.condition)})) f.stop = {code};")
                self.settle()
            case _:
                super().step(step)

    def select_ranks(self, value: ir.Expr) -> None:
        """Elements of sorted vectors that the expression reads."""
        for part in reversed(list(parts(value))):
            if not isinstance(part, ir.Index) or part in self.serial.selected:
                continue
            sort = self.vectors.sorted(part.vector)
            if sort is None or part.vector not in self.function.selected & self.function.by_rank:
                continue
            number = len(self.serial.selected)
            rank = self.function.member(f"i_{number}", "int32_t", " = 0")
            self.lines.append(f"f.{rank} = {self.text(part.index)};")
            self.position(f"k_{self.names(part.vector)}", f"qr_{number}", sort.vector, f"f->{rank}")
            element = self.serial.at(sort.vector, f"f.qr_{number}->position")
            inside = f"static_cast<size_t>(f.{rank}) < {self.serial.count(sort.vector)}"
            zero = f"{c_type(part.type)}{{}}"
            self.serial.selected[part] = f"({inside} ? {element} : {zero})"

    def take(self, vector: str, count: str) -> str:
        type_ = stored_type(self.vectors.element(vector))
        return self.function.buffer(f"v_{self.names(vector)}", type_, self.function.most(vector))

    def count(self, step: plan.Count) -> None:
        if step.kind == "take":
            member = self.function.member(f"n_{self.names(step.vector)}", "size_t", " = 0")
            value, of = self.text(step.value), self.scope.count(step.of)
            self.lines.append(f"f.{member} = cuda::atMost(ops::asCount({value}), {of});")
        else:
            super().count(step)

    # Loops

    def loop(self, loop: plan.Loop) -> None:
        for sink in loop.sinks():
            self.memory(sink, self.function.most(loop.vector))
        blocks = [sink for sink in loop.first if isinstance(sink, plan.BlocksTo)]
        rest = [sink for sink in [*loop.first, *loop.second] if not isinstance(sink, plan.BlocksTo)]
        if blocks:
            together = not loop.second and single_elements(rest, self.function)
            others, rest = (rest, []) if together else ([], rest)
            elements, finish = blocks_kernels(self.function, loop, others)
            self.kernel(elements, self.function.most(loop.vector))
            self.kernel(finish, f"cuda::kTile * {self.function.most(blocks[0].name)}")
        computed: set[str] = set()
        if loop.block is not None:
            computed = self.per_block(loop, loop.block, rest)
        if rest:
            self.kernel(plain_kernel(self.function, loop, rest, computed), self.function.most(loop.vector))
        for sink in loop.sinks():
            self.finished(sink, loop)

    def per_block(self, loop: plan.Loop, block: ir.Expr, rest: Sequence[plan.Sink]) -> set[str]:
        """What is computed once for each block; the vectors of which that is stored."""
        spread = spread_vectors(self.function, rest, block)
        stores = [*loop.per_block, *(plan.StoreTo(name, plan.Target("buffer", name)) for name in spread)]
        for store in stores:
            self.memory(store, self.function.most(store.vector))  # type: ignore[union-attr]
        if stores:
            vector = spread[0] if spread else loop.per_block[0].vector  # type: ignore[union-attr]
            per_block = plan.Loop(self.vectors.length(vector), vector)
            self.kernel(plain_kernel(self.function, per_block, stores, set()), self.function.most(vector))
        return set(spread) | {
            name
            for name, definition in self.vectors.definitions.items()
            if self.function.members.get(f"v_{self.names(name)}") and not isinstance(definition, Payload)
        }

    def memory(self, sink: plan.Sink, most: str) -> None:
        """Memory that the sink writes to."""
        function = self.function
        match sink:
            case plan.ReduceTo(name=name, op=op):
                type_ = c_type(op.function.parameters[0][1])
                function.buffer(f"r_{self.names(name)}", type_, f"{most} / ops::kReduceBlock + 1")
            case plan.FilterTo(name=name):
                c_name = self.names(name)
                function.member(f"n_{c_name}", "size_t", " = 0")
                function.buffer(f"m_{c_name}", "uint32_t", f"cuda::maskWords({most})")
                function.buffer(f"y_{c_name}", "uint32_t", f"cuda::tileCounts({most})")
                function.buffer(f"v_{c_name}", stored_type(self.vectors.element(name)), function.most(name))
            case plan.KeysTo(name=name, op=op):
                type_ = "uint64_t" if op.key.results[0].type.kind == "double" else "uint32_t"
                function.buffer(f"k_{self.names(name)}", type_, most)
            case plan.StoreTo(target=plan.Target(kind="buffer", name=name), vector=vector):
                function.buffer(f"v_{self.names(name)}", stored_type(self.vectors.element(vector)), most)
            case plan.ScatterTo(target=plan.Target(kind="gradient")):
                self.flush()
                self.kernel("cuda::fillAll(block, f->output, f->n, 0.0f);", "n")
                self.flush()
                self.host[-1] = f"if (!kAccumulate) {self.host[-1]}"

    def finished(self, sink: plan.Sink, loop: plan.Loop) -> None:
        count = self.counted(loop.vector)
        match sink:
            case plan.ReduceTo(name=name, op=op):
                combine = self.function.combine(op)
                partials = f"r_{self.names(name)}"
                self.one_block(
                    f"cuda::reducePartials(block, f->{partials}, ops::blockCount({count}, ops::kReduceBlock), "
                    f"{combine}{{f}});"
                )
                scalar = self.function.scalar(name, op.function.results[0].type)
                self.lines += [
                    f"f.{scalar} = {self.text(op.init)};",
                    f"if ({self.scope.count(loop.vector)} != 0) "
                    f"f.{scalar} = {combine}{{&f}}(f.{scalar}, f.{partials}[0]);",
                ]
            case plan.FilterTo(name=name, op=op):
                c_name = self.names(name)
                tiles = f"({count} + cuda::kTile - 1) / cuda::kTile"
                self.one_block(f"cuda::scanCounts(block, f->y_{c_name}, {tiles}, &f->n_{c_name});")
                at = self.at(op.vector, "static_cast<int32_t>(i)")
                self.kernel(
                    f"cuda::compact(block, f->m_{c_name}, f->y_{c_name}, {count},\n"
                    f"              [&](size_t place, size_t i) {{ f->v_{c_name}[place] = {at}; }});",
                    self.function.most(loop.vector),
                )

    # Indices and messages

    def check(self, step: plan.CheckIndices) -> None:
        indices, size = f"f->v_{self.names(step.indices)}", self.counted(step.vector)
        increasing = step.operator == "scatter"
        if (indices, size, True) in self.checked or (indices, size, increasing) in self.checked:
            return
        self.checked.add((indices, size, increasing))
        must = "must be in the vector" + (" and increase" if increasing else "")
        code = self.function.refusal(f"{step.operator}: indices {must}")
        self.kernel(
            f"cuda::checkIndices(block, {indices}, {self.counted(step.indices)}, {size}, "
            f"{str(increasing).lower()}, {code}u, &f->stop);",
            self.function.most(step.indices),
        )

    def read(self, step: plan.Read) -> None:
        aligned = True
        copies: list[tuple[str, str, str]] = []
        self.lines.append("cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);")
        for part in step.fields:
            name = self.names(part.name)
            element = part.type.element if isinstance(part.type, ir.Vector) else part.type
            bits = self.scope.bits(element)
            reason = f"'{part.name}' is not in the payload as it must be"
            code = f"{self.function.refusal(reason)}u"
            if not isinstance(part.type, ir.Vector):
                member = self.function.scalar(part.name, element)
                kind = "Uint" if element.kind == "uint" else "Int" if element.kind == "int" else "Float"
                self.lines.append(f"f.{member} = reader.scalar{kind}({f'{bits}, ' if kind == 'Uint' else ''}{code});")
                aligned = aligned and kind != "Uint"
                continue
            count = self.function.member(f"n_{name}", "size_t", " = 0")
            if part.length is None:
                self.lines.append(f"f.{count} = reader.rest({bits}, {code});")
            else:
                self.lines.append(f"f.{count} = reader.count({self.text(part.length)}, {code});")
            if element.kind == "uint":
                self.function.member(f"v_{name}", "const uint8_t*", " = nullptr")
                self.lines.append(f"f.v_{name} = reader.packed(f.{count}, {bits}, {code});")
                aligned = False
            elif aligned:
                type_ = c_type(element)
                self.function.member(f"v_{name}", f"const {type_}*", " = nullptr")
                self.lines.append(f"f.v_{name} = reinterpret_cast<const {type_}*>(reader.words(f.{count}, {code}));")
            else:
                self.function.buffer(f"v_{name}", c_type(element), self.function.most(part.name))
                self.function.member(f"u_{name}", "const uint8_t*", " = nullptr")
                self.lines.append(f"f.u_{name} = reader.words(f.{count}, {code});")
                copies.append((name, count, self.function.most(part.name)))
        refusal = self.function.refusal("the payload is longer than its fields")
        self.lines.append(f"reader.finish({refusal}u);")
        self.settle()
        for name, count, most in copies:
            self.kernel(f"cuda::copyBytes(block, f->u_{name}, 4 * f->{count}, f->v_{name});", f"4 * {most}")

    # Branches

    def branch(self, step: plan.Branch) -> None:
        number = sum(1 for member in self.function.members if member.startswith("c_yes"))
        outer = self.guard
        yes = self.function.member(f"c_yes{number}", "bool", " = false")
        no = self.function.member(f"c_no{number}", "bool", " = false")
        condition = self.text(step.condition)
        self.lines += [f"f.{yes} = {condition};", f"f.{no} = !f.{yes};"]
        self.settle()
        for side, flag, inner in (("yes", yes, step.yes), ("no", no, step.no)):
            # What a branch checks says nothing about the other one.
            finite, checked = self.function.gradient_checked, set(self.checked)
            self.guard = f"{outer} && f->{flag}"
            for one in inner.steps:
                self.step(one)
            for join in step.joins:
                self.join(join, getattr(join, side))
            self.settle()
            self.function.gradient_checked, self.checked = finite, checked
        self.guard = outer

    def in_memory(self, vector: str) -> str:
        definition, element = self.vectors.definitions[vector], self.vectors.element(vector)
        name = self.names(vector)
        if not isinstance(definition, Payload):
            return f"f.v_{name}"
        if element.kind != "uint":
            return f"const_cast<{c_type(element)}*>(f.v_{name})"
        most = self.function.most(vector)
        codes = self.function.buffer(f"codes_{name}", "int32_t", most)
        count, bits = self.counted(vector), self.scope.bits(element).replace("f.", "f->")
        self.kernel(f"cuda::unpackAll(block, f->v_{name}, {count}, {bits}, f->{codes});", most)
        return f"f.{codes}"

    def end(self, lines: str) -> None:
        """The last lines, which run in any case."""
        self.settle()
        self.block.append(f"block.once([&] {{\n{indented(lines, 2)}\n}});")
        self.flush()
