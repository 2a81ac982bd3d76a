# SPDX-License-Identifier: Apache-2.0
"""From statements to passes over memory: few loops, each of which computes as much as it can.

Every value has a time: the result of a loop of time t can be used by scalars at t and by loops from t + 1 on. A sink
(a reduction, a filter, a store) goes to the earliest loop over its length whose time allows it. Since maps are
computed where they are used, error feedback ends up inside the pass that encodes, and packing inside the pass that
quantises. A sink that needs block results goes into the block-wise loop that makes them, if it only uses them spread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hipress.compll import ir
from hipress.compll.passes import plan
from hipress.compll.passes.needs import Need, Needs, NeedsOf, Nest, union
from hipress.compll.passes.operators import PLANNING
from hipress.compll.passes.uses import Uses
from hipress.compll.passes.vectors import Computed, Stored, Vectors


def fuse(function: ir.Function) -> tuple[plan.Plan, Vectors]:
    """The plan of a checked function."""
    vectors = Vectors(function)
    return Planner(vectors, Uses(function)).planned(function.body), vectors


@dataclass
class _Timed:
    time: int
    step: plan.Step


@dataclass
class Planner:
    vectors: Vectors
    uses: Uses
    ready: dict[Need, int] = field(default_factory=dict)
    loops: list[_Timed] = field(default_factory=list)
    others: list[_Timed] = field(default_factory=list)
    scattered: dict[str, plan.Place] = field(default_factory=dict)
    replaced: dict[tuple[str, str], int] = field(default_factory=dict)
    """By base and indices: the time of the loop in which a scatter replaces elements of a new state."""
    gradient: str | None = None

    def planned(self, body: tuple[ir.Statement, ...]) -> plan.Plan:
        for statement in body:
            self.statement(statement)
        if self.gradient is not None:
            self.write_gradient(self.gradient)
        # At the same time, loops come first.
        ordered = sorted(
            [(loop.time, 0, i, loop.step) for i, loop in enumerate(self.loops)]
            + [(other.time, 1, i, other.step) for i, other in enumerate(self.others)],
            key=lambda entry: entry[:3],
        )
        return plan.Plan([entry[3] for entry in ordered])

    # Times

    def time(self, needs: Needs) -> int:
        return max((self.ready[need] for need in needs), default=0)

    def after(self, needs: Needs, step: plan.Step, *gives: Need) -> int:
        """Adds a step that is no loop, when its needs are ready; returns that time. Then `gives` is ready."""
        time = self.time(needs)
        self.others.append(_Timed(time, step))
        for need in gives:
            self.ready[need] = time
        return time

    def of(self) -> NeedsOf:
        return NeedsOf(self.vectors)

    # Placing sinks

    def place(self, sink: plan.Sink, over: str, block: ir.Expr | None = None, since: int = 0) -> int:
        """Puts the sink into a loop over the vector `over`; returns the loop's time.

        `block`: the sink computes one result for each block of that size. `since`: the earliest time of the loop.
        """
        needs = self.sink_needs(sink, self.of()) | self.of().count(over)
        spreads = self.of().spreads(sink) if not isinstance(sink, plan.ReduceTo | plan.BlocksTo) else ()
        blockwise = block if block is not None else spreads[0] if len(spreads) == 1 else None
        if blockwise is not None:
            needs |= self.of().expr(blockwise)
        least = max(self.time(needs) + 1, since)
        nested = self.place_in_nest(sink, over, block, since, least)
        if nested is not None:
            return nested
        again = blockwise is not None and spreads == (blockwise,)
        length = self.vectors.length(over)
        for timed in sorted(self.loops, key=lambda loop: loop.time):
            loop = timed.step
            assert isinstance(loop, plan.Loop)
            if loop.length != length or timed.time < least:
                continue
            if blockwise is not None and loop.block != blockwise:
                continue
            # The reduction of a whole vector has its own blocks of 4096 elements.
            if isinstance(sink, plan.ReduceTo) and loop.block is not None:
                continue
            (loop.second if again else loop.first).append(sink)
            return timed.time
        loop = plan.Loop(length, over, blockwise)
        (loop.second if again else loop.first).append(sink)
        self.loops.append(_Timed(least, loop))
        return least

    def place_by_block(self, sink: plan.Sink, over: str, block: ir.Expr, since: int) -> int:
        """Puts the sink into a loop that takes block after block, not before `since`; returns the loop's time."""
        length = self.vectors.length(over)
        for timed in sorted(self.loops, key=lambda loop: loop.time):
            loop = timed.step
            assert isinstance(loop, plan.Loop)
            if (loop.length, loop.block) == (length, block) and timed.time >= since:
                loop.second.append(sink)
                return timed.time
        self.loops.append(_Timed(since, plan.Loop(length, over, block, second=[sink])))
        return since

    def replace(self, sink: plan.Sink, by: plan.Sink) -> None:
        """Puts another sink in the place of one that a loop has."""
        for timed in self.loops:
            loop = timed.step
            assert isinstance(loop, plan.Loop)
            for sinks in (loop.first, loop.per_block, loop.second, *loop.later):
                sinks[:] = [by if known is sink else known for known in sinks]

    def place_in_nest(
        self, sink: plan.Sink, over: str, block: ir.Expr | None, since: int, otherwise: int
    ) -> int | None:
        """Puts the sink into a block-wise loop that computes what it needs of a block; returns that loop's time."""
        if isinstance(sink, plan.ReduceTo | plan.BlocksTo):
            return None
        for timed in self.loops:
            loop = timed.step
            assert isinstance(loop, plan.Loop)
            if loop.block is None or block not in (None, loop.block) or not since <= timed.time < otherwise:
                continue
            results = frozenset(s.name for s in loop.first if isinstance(s, plan.BlocksTo))
            per_block = self.vectors.length(over) in {self.vectors.length(name) for name in results}
            found: list[plan.Sink] | None = None
            if per_block and isinstance(sink, plan.StoreTo):
                inside = NeedsOf(self.vectors, Nest(loop.block, results))
                ready = self.time(self.sink_needs(sink, inside, per_block=True))
                found = loop.per_block if ready < timed.time else None
            elif not per_block and self.vectors.length(over) == loop.length:
                found = self.pass_of(loop, sink, results, timed.time)
            if found is not None:
                found.append(sink)
                return timed.time
        return None

    def pass_of(self, loop: plan.Loop, sink: plan.Sink, results: frozenset[str], time: int) -> list[plan.Sink] | None:
        """The earliest pass of a block-wise loop in which all that the sink needs of a block is known."""
        assert loop.block is not None
        known: frozenset[str] = frozenset()
        before, passes = loop.first, [loop.second, *loop.later]
        for number, sinks in enumerate([*passes, []]):
            made = frozenset(s.name for s in before if isinstance(s, plan.ByBlocks))
            known, before = known | made, sinks
            if number == len(passes) and not made:
                return None
            inside = NeedsOf(self.vectors, Nest(loop.block, results, known))
            if self.time(self.sink_needs(sink, inside)) < time:
                if number == len(passes):
                    loop.later.append(sinks)
                return sinks
        return None

    def sink_needs(self, sink: plan.Sink, of: NeedsOf, *, per_block: bool = False) -> Needs:
        match sink:
            case plan.ReduceTo(op=op) | plan.BlocksTo(op=op):
                return of.element(op.vector)
            case plan.OperatorSink(op=op):
                return of.element(op.vector) | union(of.function(function) for function in op.functions())
            case plan.StoreTo(vector=vector, place=place):
                where = frozenset((Need("count", f"message:{place.item}"),)) if place.kind == "message" else Needs()
                return of.element(vector, per_block=per_block) | where
            case plan.ScatterTo(indices=indices, values=values):
                put = of.element(values.vector) if isinstance(values, ir.Vec) else of.expr(values)
                return frozenset((Need("stored", indices),)) | put
        raise AssertionError(sink)

    def since(self, vector: str) -> int:
        """The earliest time at which a store of the vector costs least."""
        definition = self.vectors.definitions[vector]
        since = PLANNING[type(definition.op)].since if isinstance(definition, Computed) else None
        return since(self, definition.op) if since is not None and isinstance(definition, Computed) else 0

    # Statements

    def statement(self, statement: ir.Statement) -> None:
        of = self.of()
        match statement:
            case ir.Let():
                if isinstance(statement.value, ir.Expr):
                    scalar = plan.Scalar(statement.name, statement.value.type, statement.value)
                    self.after(of.expr(statement.value), scalar, Need("scalar", statement.name))
                else:
                    PLANNING[type(statement.value)].plan(self, statement.name, statement.value)
            case ir.LetMany():
                pass  # elements of maps are computed where they are used
            case ir.If():
                self.branch(statement)
            case ir.WriteState():
                if self.scattered.get(statement.vector) != plan.Place("state", statement.state):
                    whole = self.vectors.length(statement.state) == self.vectors.length(ir.GRADIENT)
                    over = ir.GRADIENT if whole else statement.state
                    self.place(plan.StoreTo(statement.vector, plan.Place("state", statement.state)), over)
            case ir.WriteGradient():
                self.gradient = (
                    statement.vector
                )  # at the end, because the whole message is checked before anything is written
            case ir.WriteMessage():
                self.message(statement.items)
            case ir.Extract():
                self.extract(statement.fields)
            case ir.Require():
                self.after(of.expr(statement.condition), plan.Demand(statement.condition, statement.span.line))

    def count(self, name: str, op: ir.Operator) -> None:
        """Adds the step that computes the length of a vector that has a count of its own."""
        length, of = op.length(), self.of()
        match length:
            case ir.Exactly():
                step, needs = plan.Count(name, "exact", length.count), of.expr(length.count)
            case ir.First():
                step = plan.Count(name, "take", length.count, length.vector)
                needs = of.expr(length.count) | of.count(length.vector)
            case ir.Blocks():
                step = plan.Count(name, "blocks", length.block, length.vector)
                needs = of.expr(length.block) | of.count(length.vector)
            case _:
                raise AssertionError(op)
        self.after(needs, step, Need("count", name))

    def stored(self, vector: str) -> None:
        """Makes sure that the vector is in memory."""
        need = Need("stored", vector)
        if need not in self.ready:
            self.ready[need] = self.place(plan.StoreTo(vector, plan.Place("buffer", vector)), vector)

    def check(self, indices: str, vector: str, operator: str, *, increasing: bool = False) -> int:
        """Checks that the indices are in the vector; the time of the check."""
        needs = frozenset((Need("stored", indices),)) | self.of().count(indices) | self.of().count(vector)
        return self.after(needs, plan.CheckIndices(indices, vector, operator, increasing))

    def zeros(self, vector: str) -> bool:
        """Whether the vector is fill(…, 0.0)."""
        match self.vectors.definitions[vector]:
            case Computed(ir.Fill(value=ir.Const(value=value))):
                return value == 0
        return False

    def write_gradient(self, vector: str) -> None:
        """The gradient is written after all checks of the message."""
        since = (
            max((t.time for t in self.others if isinstance(t.step, (plan.Demand, plan.CheckIndices))), default=0) + 1
        )
        target = plan.Place("gradient")
        definition = self.vectors.definitions[vector]
        if self.scattered.get(vector) == target:
            assert isinstance(definition, Stored)
            assert isinstance(definition.op, ir.Scatter)
            op = definition.op
            self.place(plan.ScatterTo(op.base, op.indices, op.values, target), op.indices, since=since)
        else:
            self.place(plan.StoreTo(vector, target), ir.GRADIENT, since=since)

    def extract(self, fields: tuple[ir.Field, ...]) -> None:
        of = self.of()
        local = frozenset(part.name for part in fields)
        needs: Needs = frozenset()
        for part in fields:
            if part.length is not None:
                needs |= of.expr(part.length, local)
        time = self.after(needs, plan.Read(fields))
        for part in fields:
            if isinstance(part.type, ir.Vector):
                self.ready[Need("stored", part.name)] = self.ready[Need("count", part.name)] = time
            else:
                self.ready[Need("scalar", part.name)] = time

    def message(self, items: tuple[ir.Vec | ir.Expr, ...]) -> None:
        of = self.of()
        sizes: Needs = frozenset()
        needs: Needs = frozenset()
        for number, item in enumerate(items):
            if isinstance(item, ir.Vec):
                begins = Need("count", f"message:{number}")
                self.after(sizes, plan.Offset(number), begins)
                store = plan.StoreTo(item.vector, plan.Place("message", item=number))
                time = self.place(store, item.vector, since=self.since(item.vector))
                stored = Need("stored", f"message:{number}")
                self.ready[stored] = time
                needs |= {begins, stored}
                sizes |= of.count(item.vector)
            else:
                needs |= of.expr(item)
        self.after(needs | sizes, plan.Finish(items))

    def branch(self, statement: ir.If) -> None:
        plans = []
        for body, side in ((statement.yes, "yes"), (statement.no, "no")):
            inner = Planner(self.vectors, self.uses, dict.fromkeys(self.ready, 0), scattered=self.scattered)
            for inside in body:
                inner.statement(inside)
            for join in statement.joins:
                if isinstance(join.type, ir.Vector):
                    inner.stored(getattr(join, side))
            plans.append(inner.planned(()))
        needs = self.of().expr(statement.condition) | frozenset(self.ready)
        gives = [
            Need("stored" if isinstance(join.type, ir.Vector) else "scalar", join.name) for join in statement.joins
        ]
        gives += [Need("count", join.name) for join in statement.joins if isinstance(join.type, ir.Vector)]
        self.after(needs, plan.Branch(statement.condition, plans[0], plans[1], statement.joins), *gives)
