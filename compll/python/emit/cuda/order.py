# SPDX-License-Identifier: Apache-2.0
"""Sorting on a GPU: the kernels that a sort becomes depend on the elements that the program uses.

Single ranks and sets of the smallest elements are selected by counting. Only elements that are used in order are
sorted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.scope import stored_type
from hipress.compll.emit.steps import Steps
from hipress.compll.passes import plan
from hipress.compll.passes.vectors import expressions, parts


class OrderSteps(Steps):
    function: CudaFunction
    host: list[str]  # lines that launch kernels
    sorts = False

    @abstractmethod
    def kernel(self, body: str, most: str) -> None:
        """A kernel over up to `most` elements."""

    @abstractmethod
    def one_block(self, statement: str) -> None:
        """A statement for one thread block."""

    @abstractmethod
    def flush(self) -> None:
        """Ends the kernel of one thread block, so that its results can be used by the host's next lines."""

    def key_type(self, keys: str) -> str:
        return self.function.members[keys].split("*")[0]

    def counted(self, vector: str) -> str:
        return self.function.count(vector, "f->")

    # Selecting

    def selected_keys(self, keys: str, selection: str, vector: str, rank: str) -> str:
        """Selects the key of a rank and counts equal keys; returns the arguments that describe the selection."""
        type_, count, most = self.key_type(keys), self.counted(vector), self.function.most(vector)
        self.function.buffer(selection, f"cuda::Selection<{type_}>", "1")
        for counts in (f"yl_{keys}", f"ye_{keys}"):
            self.function.buffer(counts, "uint32_t", f"cuda::tileCounts({most})")
        self.one_block(f"cuda::beginSelection(block, f->{selection}, {rank}, {count});")
        for _ in range({"uint32_t": 3, "uint64_t": 6}[type_]):
            self.kernel(f"cuda::countKeys(block, f->{keys}, {count}, f->{selection});", most)
            self.one_block(f"cuda::pickBucket(block, f->{selection});")
        ties = f"f->yl_{keys}, f->ye_{keys}"
        self.kernel(f"cuda::countTies(block, f->{keys}, {count}, f->{selection}, {ties});", most)
        self.one_block(f"cuda::scanTies(block, f->{selection}, {ties}, {count});")
        return f"f->{selection}, {ties}"

    def position(self, keys: str, selection: str, vector: str, rank: str) -> None:
        """f->selection->position becomes the position of the element of a rank."""
        arguments = self.selected_keys(keys, selection, vector, rank)
        count = self.counted(vector)
        self.kernel(f"cuda::findPosition(block, f->{keys}, {count}, {arguments});", self.function.most(vector))

    def smallest_set(self, keys: str, selection: str, vector: str, kept: str, write: str) -> None:
        """write(place, i) for each of the `kept` smallest, in the order of i."""
        arguments = self.selected_keys(keys, selection, vector, f"static_cast<int64_t>({kept}) - 1")
        self.kernel(
            f"cuda::smallestSet(block, f->{keys}, {self.counted(vector)}, {kept}, {arguments}, {write});",
            self.function.most(vector),
        )

    # Sorting

    def sorted_positions(self, name: str, keys: str, count: str, most: str) -> str:
        """The member with the positions of all keys in order."""
        self.sorts = True
        type_, function = self.key_type(keys), self.function
        before, after = function.buffer(f"pi_{name}", "uint32_t", most), function.buffer(f"p_{name}", "uint32_t", most)
        ordered = function.buffer(f"ko_{name}", type_, most)
        scratch = function.buffer(f"sort_{name}", "uint8_t", f"cuda::sortScratchBytes<{type_}>({most})")
        self.kernel(
            f"cuda::prepareSort(block, f->{keys}, f->{before}, {count}, f->most_{name});",
            most,
        )
        function.member(f"most_{name}", "size_t", " = 0")
        function.initial.append(f"initial.most_{name} = {most};")
        self.flush()
        self.host.append(
            f"cuda::sortPositions<{type_}>(stream, initial.{scratch}, initial.{keys}, initial.{ordered},\n"
            f"    initial.{before}, initial.{after}, {most});"
        )
        return after

    # The step

    def order(self, step: plan.Order) -> None:
        function, name = self.function, self.names(step.name)
        keys = f"k_{name}"
        if step.mode == "rank":
            function.by_rank.add(step.name)
            if step.name not in function.selected:
                count, most = self.counted(step.vector), function.most(step.vector)
                self.sorted_positions(name, keys, count, most)
            return
        kept = self.counted(step.vector)
        if step.mode in ("take", "set"):
            assert step.count is not None
            member = self.counter(step.name)
            least = self.least(f"ops::asCount({self.text(step.count)})", self.scope.count(step.vector))
            self.lines.append(f"f.{member} = {least};")
            kept = f"f->{member}"
        type_ = stored_type(self.vectors.element(step.name))
        function.buffer(f"v_{name}", type_, function.most(step.name))
        if keys not in function.members:  # sorted already
            self.copied_elements(step, kept, "static_cast<int32_t>(tile + j)")
        elif step.mode == "set":
            at = self.at(step.vector, "static_cast<int32_t>(i)")
            write = f"[&](size_t place, size_t i) {{ f->v_{name}[place] = {at}; }}"
            self.smallest_set(keys, f"q_{name}", step.vector, kept, write)
        elif step.mode == "take":
            self.take_smallest(step, kept)
        else:
            positions = self.sorted_positions(name, keys, kept, function.most(step.vector))
            self.copied_elements(step, kept, f"static_cast<int32_t>(f->{positions}[tile + j])")

    def take_smallest(self, step: plan.Order, kept: str) -> None:
        """Selects the set of the smallest elements, and sorts only these."""
        function, name = self.function, self.names(step.name)
        keys, most = f"k_{name}", function.most(step.name)
        chosen = function.buffer(f"pc_{name}", "uint32_t", most)
        chosen_keys = function.buffer(f"kc_{name}", self.key_type(keys), most)
        write = (
            "[&](size_t place, size_t i) {\n"
            f"  f->{chosen}[place] = static_cast<uint32_t>(i);\n"
            f"  f->{chosen_keys}[place] = f->{keys}[i];\n}}"
        )
        self.smallest_set(keys, f"q_{name}", step.vector, kept, write)
        positions = self.sorted_positions(name, chosen_keys, kept, most)
        self.copied_elements(step, kept, f"static_cast<int32_t>(f->{chosen}[f->{positions}[tile + j]])")

    def copied_elements(self, step: plan.Order, kept: str, position: str) -> None:
        """The vector's elements at the positions."""
        at = self.at(step.vector, position)
        self.kernel(
            f"for (size_t tile = block.index * cuda::kTile; tile < {kept}; tile += block.count * cuda::kTile) {{\n"
            f"  block.elements(cuda::tileCount(tile, {kept}),\n"
            f"                 [&](unsigned j) {{ f->v_{self.names(step.name)}[tile + j] = {at}; }});\n}}",
            self.function.most(step.name),
        )

    def at(self, vector: str, index: str) -> str:
        return f"{self.function.at(vector)}<{self.function.flag}>(f, {index})"


def only_ranks(body: tuple[ir.Statement, ...]) -> set[str]:
    """Vectors whose elements are read only by scalars of the function, outside of any if."""
    scalars: set[str] = set()
    elsewhere: set[str] = set()
    for expr, scalar in _reads(body, top=True):
        (scalars if scalar else elsewhere).add(expr.vector)
    return scalars - elsewhere


def _reads(body: tuple[ir.Statement, ...], *, top: bool) -> Iterator[tuple[ir.Index, bool]]:
    """Reads of elements, each with whether a scalar outside of any if reads it."""
    for statement in body:
        for expr in _expressions(statement):
            scalar = top and isinstance(statement, ir.Let) and statement.value is expr
            for part in parts(expr):
                if isinstance(part, ir.Index):
                    yield part, scalar
        if isinstance(statement, ir.If):
            yield from _reads(statement.yes + statement.no, top=False)


def _expressions(statement: ir.Statement) -> Iterator[ir.Expr]:
    match statement:
        case ir.Let() | ir.LetMany():
            value = statement.value
            if isinstance(value, ir.Operator):
                for function in value.functions():
                    yield from expressions(function)
                yield from value.scalars()
            else:
                yield value
        case ir.If() | ir.Require():
            yield statement.condition
        case ir.WriteMessage():
            yield from (item for item in statement.items if isinstance(item, ir.Expr))
        case ir.Extract():
            yield from (part.length for part in statement.fields if part.length is not None)
