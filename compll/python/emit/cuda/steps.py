# SPDX-License-Identifier: Apache-2.0
"""A plan as kernels, and as the host's statements that launch them.

No value that depends on the data comes back to the host: the device computes scalars, grids are large enough for the
greatest number of elements, and kernels read the real counts. The steps before the first kernel need one thread: each
thread block of that kernel does them in a frame of its own (core/ops/cuda/execution/first_kernel.h). The last thread
block of a kernel also does the steps that follow and need only one thread or one thread block. Once the frame's `stop`
is set, kernels do nothing; kernels of a branch that is not taken do nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipress.compll import ir
from hipress.compll.emit.cuda.blocks import blocks_kernels, single_elements
from hipress.compll.emit.cuda.function import CudaFunction, aligned
from hipress.compll.emit.cuda.loop import plain_kernel, spread_vectors
from hipress.compll.emit.cuda.one_pass import one_pass_kernel
from hipress.compll.emit.cuda.order import OrderSteps, only_ranks
from hipress.compll.emit.scope import c_type, stored_type
from hipress.compll.emit.steps import Driver
from hipress.compll.emit.text import indented
from hipress.compll.ir.expressions import FLOAT16, TRIT
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import Payload, parts


class _Serial(Driver):
    """In one thread of a kernel; selected elements of sorted vectors are known."""

    def __init__(self, function: CudaFunction) -> None:
        super().__init__(function)
        self.selected: dict[ir.Index, str] = {}

    def index(self, expr: ir.Index) -> str:
        return self.selected[expr] if expr in self.selected else super().index(expr)


class CudaSteps(OrderSteps):
    def __init__(self, function: CudaFunction, body: tuple[ir.Statement, ...], *, one_pass: bool = False) -> None:
        """`one_pass`: blocks are short, so that a loop over them is one kernel (one_pass.py)."""
        super().__init__(function)
        self.one_pass = one_pass
        self.function: CudaFunction = function
        self.serial = self.scope = _Serial(function)
        self.host: list[str] = []
        self.body, self.grid = "", "1"  # the next kernel: the work of all thread blocks, and their number
        self.only_if: str | None = None
        self.block: list[str] = []  # the work of one thread block afterwards
        self.prelude: list[str] | None = []  # the steps before the first kernel, if one thread does them all
        self.beginning = ""  # these steps, for a thread block
        self.started = False  # whether there is a kernel
        self.guard = "f->stop == 0"
        self.checked: set[tuple[str, str, bool]] = set()
        #: The last kernel, if it is a plain one: the loop, its sinks, and the spread vectors in memory.
        self.plain: tuple[plan.Loop, Sequence[plan.Sink], set[str]] | None = None
        function.selected = only_ranks(body)

    # Kernels

    def settle(self) -> None:
        """The collected lines, for one thread, become a statement of one thread block."""
        if self.lines:
            lines, self.lines = self.lines, []
            text = indented("\n".join(lines), 4)
            guard = self.guard.replace("f->", "f.")
            step = f"if ({guard}) {{\n{text}\n  }}"
            self.block.append(f"block.once([&] {{\n  Frame& f = *frame;\n  {step}\n}});\nblock.sync();")
            if self.prelude is not None:
                self.prelude.append(step)

    def one_block(self, statement: str) -> None:
        self.settle()
        self.prelude = None
        self.block.append(f"if ({self.guard}) {{\n{indented(statement, 2)}\n}}")

    def kernel(self, body: str, most: str, only_if: str | None = None) -> None:
        """`only_if`: the host's condition, without which the kernel has no work; None: the host starts it always."""
        self.settle()
        if self.started or self.body or self.prelude is None:
            self.flush()
        else:  # the first kernel
            self.beginning, self.block = "\n".join(self.block), []
        self.plain = None
        self.body = f"if ({self.guard}) {{\n{indented(body, 2)}\n}}"
        self.grid = f"cuda::gridFor({most})"
        self.only_if = only_if

    def also(self, statement: str) -> bool:
        """Adds a statement to the kernel that has not ended yet; returns whether there is one with many thread
        blocks."""
        if not self.body:
            return False
        self.body += f"\n{statement}"
        return True

    def flush(self) -> None:
        """Ends a kernel. The last thread block of the grid does the work of one thread block."""
        self._flush(is_last=False)

    def _flush(self, *, is_last: bool, of_first_block: bool = False) -> None:
        """`of_first_block`: what one thread block does needs no results of the others."""
        self.settle()
        if not self.body and not self.block and not self.beginning:
            return
        if self.started:
            members, opening, given = ["Frame* frame;"], ["[[maybe_unused]] Frame* const f = frame;"], "frame"
            is_end = "block.last(&f->ticket)"
        else:
            members, opening, given = _first(is_last)
            is_end = "cuda::isLastWith(block, f, counters)"
            if not is_last:
                self.block.append("cuda::copyFrame(block, *f, later);")
        # Only through a pointer to a member does a kernel leave something in the frame.
        if of_first_block and "&f->" not in self.body:
            is_end = "block.index == 0"
        after = "\n".join(self.block)
        if self.body and after:
            after = f"if ({is_end}) {{\n{indented(after, 2)}\n}}"
        text = "\n".join(filter(None, [*opening, self.beginning, self.body, after]))
        function, number = self.function, len(self.function.kernels)
        function.kernels.append(
            f"template <bool {function.flag}>\nstruct Kernel{number} {{\n{indented(chr(10).join(members), 2)}\n"
            f"  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {{\n{indented(text, 4)}\n  }}\n}};\n"
        )
        kernel = f"Kernel{number}<{function.flag}>"
        start = f"cuda::launch(stream, {function.symbol(number)}, {self.grid}, {kernel}{{{given}}});"
        always = self.only_if is None or after or not self.started
        self.host.append(start if always else f"if ({self.only_if}) {start}")
        self.body, self.grid, self.block, self.only_if = "", "1", [], None
        self.prelude, self.beginning, self.started = None, "", True

    # Scalars

    def step(self, step: plan.Step) -> None:
        if isinstance(step, plan.Scalar):
            self.select_ranks(step.value)
        super().step(step)

    def demand(self, step: plan.Demand, refusal: str) -> None:
        code = self.function.refusal(refusal)
        self.lines.append(f"if (f.stop == 0 && !({self.text(step.condition)})) f.stop = {code};")
        self.settle()

    def select_ranks(self, value: ir.Expr) -> None:
        """Selects the elements of sorted vectors that the expression reads."""
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

    def reserve_vector(self, vector: str, count: str) -> str:
        type_ = stored_type(self.vectors.element(vector))
        return self.function.buffer(f"v_{self.names(vector)}", type_, self.function.most(vector))

    # Loops

    def loop(self, loop: plan.Loop) -> None:
        for part in loop.apart():
            self.kernels_of(part)

    def kernels_of(self, loop: plan.Loop) -> None:
        for sink in loop.sinks():
            self.before(sink, loop.vector)
        if self.one_pass:
            most = self.function.most(loop.vector)
            self.kernel(one_pass_kernel(self.function, loop), f"{most}, cuda::onePassElements({most})")
            return
        blocks = [sink for sink in loop.first if isinstance(sink, plan.BlocksTo)]
        rest = [sink for sink in [*loop.first, *loop.second] if not isinstance(sink, plan.BlocksTo)]
        if blocks:
            together = not loop.second and single_elements(rest, self.function)
            others, rest = (rest, []) if together else ([], rest)
            elements, finish = blocks_kernels(self.function, loop, others)
            self.kernel(elements, self.function.most(loop.vector))
            size = None if loop.block is None else self.function.bounds.known(loop.block)
            are_long = None if size is None else f"static_cast<size_t>(ops::atLeastOne({size})) > cuda::kTile"
            self.kernel(finish, f"cuda::kTile * {self.function.most(blocks[0].name)}", are_long)
        computed: set[str] = set()
        if loop.block is not None:
            computed = self.per_block(loop, loop.block, rest)
        if rest:
            self.kernel(plain_kernel(self.function, loop, rest, computed), self.function.most(loop.vector))
            self.plain = (loop, rest, computed)
        for sink in loop.sinks():
            after = self.function.target.sinks[type(sink)].after
            if after is not None:
                after(self, sink, loop.vector)

    def before(self, sink: plan.Sink, vector: str) -> None:
        """Reserves the memory that the sink writes to."""
        before = self.function.target.sinks[type(sink)].before
        if before is not None:
            before(self, sink, vector)

    def per_block(self, loop: plan.Loop, block: ir.Expr, rest: Sequence[plan.Sink]) -> set[str]:
        """Adds a kernel for values that a block has once; returns the names of the vectors that it stores."""
        spread = spread_vectors(self.function, rest, block)
        per_block = [sink for sink in loop.per_block if isinstance(sink, plan.StoreTo)]
        stores = [*per_block, *(plan.StoreTo(name, plan.Place("buffer", name)) for name in spread)]
        for store in stores:
            self.before(store, store.vector)
        if stores:
            vector = spread[0] if spread else per_block[0].vector
            over_blocks = plan.Loop(self.vectors.length(vector), vector)
            self.kernel(plain_kernel(self.function, over_blocks, stores, set()), self.function.most(vector))
        return set(spread) | {
            name
            for name, definition in self.vectors.definitions.items()
            if self.function.members.get(f"v_{self.names(name)}") and not isinstance(definition, Payload)
        }

    # Indices and messages

    def starts(self, step: plan.Starts) -> None:
        name, widths, most = self.names(step.name), self.names(step.widths), self.function.most(step.widths)
        starts = self.function.buffer(f"g_{name}", "uint32_t", most)
        self.function.member(f"b_{name}", "size_t", " = 1")
        self.function.member(f"c_{name}", "size_t", " = 0")
        block, count = self.text(step.block), self.text(step.count)
        self.lines += [
            f"f.b_{name} = static_cast<size_t>(ops::atLeastOne({block}));",
            f"f.c_{name} = ops::asCount({count});",
        ]
        self.settle()
        blocks = self.counted(step.widths)
        self.kernel(
            f"cuda::countBlockWords(block, f->v_{widths}, {blocks}, f->c_{name}, f->b_{name}, f->{starts});", most
        )
        total = self.counter(step.name)
        self.one_block(f"cuda::scanCounts(block, f->{starts}, {blocks}, &f->{total});")
        if step.words is not None:
            code = self.function.refusal("unpack_blocks: there are not as many words as the widths need")
            words = self.scope.count(step.words)
            self.lines.append(f"if (f.stop == 0 && f.{total} != {words}) f.stop = {code};")
            self.settle()

    def check(self, step: plan.CheckIndices) -> None:
        indices, size = f"f->v_{self.names(step.indices)}", self.counted(step.vector)
        increasing = step.increasing
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

    def begin_reading(self, fields: Sequence[ir.Field]) -> None:
        elements = [part.type.element if isinstance(part.type, ir.Vector) else part.type for part in fields]
        self.aligned = {part.name for part in fields[: aligned(elements)]}
        self.copies: list[tuple[str, str, str]] = []
        self.trits = [p.name for p in fields if isinstance(p.type, ir.Vector) and p.type.element == TRIT]
        self.lines.append("cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);")

    def reader_call(self, method: str, part: ir.Field, *arguments: str) -> str:
        code = self.function.refusal(f"'{part.name}' is not in the payload as it must be")
        return f"reader.{method}({', '.join([*arguments, f'{code}u'])})"

    def read_numbers(self, part: ir.Field, type_: str, counter: str) -> None:
        """Numbers at addresses that are no multiple of four are copied first."""
        size = "2" if type_ == "uint16_t" else "4"
        name, numbers = self.names(part.name), self.reader_call("numbers", part, f"f.{counter}", size)
        if part.name in self.aligned:
            member = self.function.member(f"v_{name}", f"const {type_}*", " = nullptr")
            self.lines.append(f"f.{member} = reinterpret_cast<const {type_}*>({numbers});")
            return
        most = self.function.most(part.name)
        self.function.buffer(f"v_{name}", type_, most)
        member = self.function.member(f"u_{name}", "const uint8_t*", " = nullptr")
        self.lines.append(f"f.{member} = {numbers};")
        self.copies.append((name, f"{size} * f->{counter}", f"{size} * {most}"))

    def end_reading(self) -> None:
        refusal = self.function.refusal("the payload is longer than its fields")
        self.lines.append(f"reader.finish({refusal}u);")
        self.settle()
        for name, size, most in self.copies:
            self.kernel(f"cuda::copyBytes(block, f->u_{name}, {size}, f->v_{name});", most)
        for field in self.trits:
            code = self.function.refusal(f"'{field}' has a byte that is no five digits 0, 1 and 2")
            self.kernel(
                f"cuda::checkTrits(block, f->v_{self.names(field)}, {self.counted(field)}, {code}u, &f->stop);",
                self.function.most(field),
            )

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
            # A check that one branch makes says nothing about the other branch.
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
        if not element.bits and element.width is None:
            return f"const_cast<{c_type(element)}*>(f.v_{name})"
        most = self.function.most(vector)
        if element == FLOAT16:
            values = self.function.buffer(f"codes_{name}", "float", most)
            self.kernel(f"cuda::widenAll(block, f->v_{name}, {self.counted(vector)}, f->{values});", most)
            return f"f.{values}"
        codes = self.function.buffer(f"codes_{name}", "int32_t", most)
        count, bits = self.counted(vector), self.scope.bits(element).replace("f.", "f->")
        signed = str(element.kind == "int").lower()
        self.kernel(f"cuda::unpackAll<{signed}>(block, f->v_{name}, {count}, {bits}, f->{codes});", most)
        return f"f.{codes}"

    def end(self, lines: str) -> None:
        """Adds the last lines, which run even if `stop` is set."""
        self.settle()
        alone = not self.block
        self.block.append(f"block.once([&] {{\n{indented(lines, 2)}\n}});")
        self._flush(is_last=True, of_first_block=alone)


def _first(is_last: bool) -> tuple[list[str], list[str], str]:
    """Of a function's first kernel: the members, the first statements, and the members' values on the host."""
    members = ["Frame initial;  // as far as the host knows it", "cuda::Counters* counters;"]
    given = "initial, call->counters"
    if not is_last:
        members.append("Frame* later;  // of the kernels that follow")
        given += ", frame"
    opening = [
        "HIPRESS_SHARED cuda::OwnFrame<Frame> own;",
        "Frame* const frame = own.begin(block, initial);",
        "[[maybe_unused]] Frame* const f = frame;",
    ]
    return members, opening, given
