# SPDX-License-Identifier: Apache-2.0
"""From statements to passes over memory: few loops, each feeding as much as it can.

Every value has a time: what comes from a loop of time t can be used by scalars at t and by loops from t + 1 on. A sink
(a reduction, a filter, a store) goes to the earliest loop over its length whose time allows it. Since maps are
computed where they are used, error feedback ends up inside the pass that encodes, and packing inside the pass that
quantises. A sink that needs block results goes into the block-wise loop that makes them, if it only uses them spread.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from hipress.compll import ir, plan
from hipress.compll.needs import Need, Needs, NeedsOf, Nest
from hipress.compll.vectors import Stored, Vectors, expressions, identity, parts

_Mode = Literal["rank", "all", "take", "set"]


def fuse(function: ir.Function) -> tuple[plan.Plan, Vectors]:
    """The plan of a checked function."""
    vectors = Vectors(function)
    return _Planner(vectors, _Uses(function)).planned(function.body), vectors


class _Uses:
    """How sorted vectors and scattered ones are used: some need not exist as a whole."""

    def __init__(self, function: ir.Function) -> None:
        self.by_rank: set[str] = set()  # vectors of which single elements are read
        self.whole: dict[str, list[ir.Operator | ir.Statement]] = {}
        self._statements(function.body)

    def _statements(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            match statement:
                case ir.Let() | ir.LetMany():
                    if isinstance(statement.value, ir.Expr):
                        self._expr(statement.value)
                    else:
                        self._operator(statement.value)
                case ir.If():
                    self._expr(statement.condition)
                    self._statements(statement.yes)
                    self._statements(statement.no)
                    for join in statement.joins:
                        self._use(join.yes, statement)
                        self._use(join.no, statement)
                case ir.WriteState() | ir.WriteGradient():
                    self._use(statement.vector, statement)
                case ir.WriteMessage():
                    for item in statement.items:
                        if isinstance(item, ir.Vec):
                            self._use(item.vector, statement)
                        else:
                            self._expr(item)
                case ir.Require():
                    self._expr(statement.condition)
                case ir.Extract():
                    for part in statement.fields:
                        if part.length is not None:
                            self._expr(part.length)

    def _use(self, vector: str, by: ir.Operator | ir.Statement) -> None:
        self.whole.setdefault(vector, []).append(by)

    def _expr(self, expr: ir.Expr) -> None:
        for part in parts(expr):
            if isinstance(part, ir.Index):
                self.by_rank.add(part.vector)

    def _operator(self, op: ir.Operator) -> None:
        match op:
            case ir.Map():
                for access in op.inputs:
                    self._use(access.vector, op)
                    if isinstance(access, ir.Spread):
                        self._expr(access.block)
            case ir.Reduce() | ir.ReduceBlocks() | ir.Filter() | ir.Sort():
                self._use(op.vector, op)
                if isinstance(op, ir.Reduce):
                    self._expr(op.init)
            case ir.Gather():
                self._use(op.vector, op)
                self._use(op.indices, op)
            case ir.Scatter():
                self._use(op.base, op)
                self._use(op.indices, op)
                if isinstance(op.values, ir.Vec):
                    self._use(op.values.vector, op)
                else:
                    self._expr(op.values)
            case ir.Take():
                self._use(op.vector, op)
                self._expr(op.count)
            case ir.Range() | ir.Fill():
                self._expr(op.count)
                if isinstance(op, ir.Fill):
                    self._expr(op.value)
        for function in (getattr(op, name, None) for name in ("function", "predicate", "key")):
            if isinstance(function, ir.Lambda):
                for expr in expressions(function):
                    if isinstance(expr, ir.Index):
                        self._use(expr.vector, op)


@dataclass
class _Timed:
    time: int
    step: plan.Step


@dataclass
class _Planner:
    vectors: Vectors
    uses: _Uses
    ready: dict[Need, int] = field(default_factory=dict)
    loops: list[_Timed] = field(default_factory=list)
    others: list[_Timed] = field(default_factory=list)
    scattered: dict[str, plan.Target] = field(default_factory=dict)
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
        """A step that is no loop."""
        time = self.time(needs)
        self.others.append(_Timed(time, step))
        for need in gives:
            self.ready[need] = time
        return time

    def of(self) -> NeedsOf:
        return NeedsOf(self.vectors)

    # Placing sinks

    def place(self, sink: plan.Sink, over: str, block: ir.Expr | None = None, since: int = 0) -> int:
        """Puts the sink into a loop over the vector `over`; the loop's time. `block`: the sink makes block results."""
        needs = self.sink_needs(sink, self.of()) | self.of().count(over)
        spreads = self.of().spreads(sink) if block is None and not isinstance(sink, plan.ReduceTo) else ()
        blockwise = block if block is not None else spreads[0] if len(spreads) == 1 else None
        if blockwise is not None:
            needs |= self.of().expr(blockwise)
        least = max(self.time(needs) + 1, since)
        nested = self.place_in_nest(sink, over, least) if block is None else None
        if nested is not None:
            return nested
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
            (loop.second if spreads and blockwise is not None else loop.first).append(sink)
            return timed.time
        loop = plan.Loop(length, over, blockwise)
        (loop.second if spreads and blockwise is not None else loop.first).append(sink)
        self.loops.append(_Timed(least, loop))
        return least

    def place_in_nest(self, sink: plan.Sink, over: str, otherwise: int) -> int | None:
        """The time of a block-wise loop that took the sink because it has the block results the sink needs."""
        if isinstance(sink, plan.ReduceTo):
            return None
        for timed in self.loops:
            loop = timed.step
            assert isinstance(loop, plan.Loop)
            if loop.block is None or timed.time >= otherwise:
                continue
            results = frozenset(s.name for s in loop.first if isinstance(s, plan.BlocksTo))
            inside = NeedsOf(self.vectors, Nest(loop.block, results))
            blocks = {self.vectors.length(name) for name in results}
            per_block = self.vectors.length(over) in blocks
            if not per_block and self.vectors.length(over) != loop.length:
                continue
            if per_block and not isinstance(sink, plan.StoreTo):
                continue
            if self.time(self.sink_needs(sink, inside, per_block=per_block)) < timed.time:
                (loop.per_block if per_block else loop.second).append(sink)
                return timed.time
        return None

    def sink_needs(self, sink: plan.Sink, of: NeedsOf, *, per_block: bool = False) -> Needs:
        match sink:
            case plan.ReduceTo(op=op) | plan.BlocksTo(op=op):
                return of.element(op.vector)
            case plan.FilterTo(op=op):
                return of.element(op.vector) | of.function(op.predicate)
            case plan.KeysTo(op=op):
                return of.element(op.vector) | of.function(op.key)
            case plan.StoreTo(vector=vector, target=target):
                where = frozenset((Need("count", f"message:{target.item}"),)) if target.kind == "message" else Needs()
                return of.element(vector, per_block=per_block) | where
            case plan.ScatterTo(indices=indices, values=values):
                put = of.element(values.vector) if isinstance(values, ir.Vec) else of.expr(values)
                return frozenset((Need("stored", indices),)) | put

    # Statements

    def statement(self, statement: ir.Statement) -> None:
        of = self.of()
        match statement:
            case ir.Let():
                if isinstance(statement.value, ir.Expr):
                    scalar = plan.Scalar(statement.name, statement.value.type, statement.value)
                    self.after(of.expr(statement.value), scalar, Need("scalar", statement.name))
                else:
                    self.operator(statement.name, statement.value)
            case ir.LetMany():
                pass  # elements of maps are computed where they are used
            case ir.If():
                self.branch(statement)
            case ir.WriteState():
                if self.scattered.get(statement.vector) != plan.Target("state", statement.state):
                    self.place(plan.StoreTo(statement.vector, plan.Target("state", statement.state)), ir.GRADIENT)
            case ir.WriteGradient():
                self.gradient = statement.vector  # at the end: nothing is written before all has been checked
            case ir.WriteMessage():
                self.message(statement.items)
            case ir.Extract():
                self.extract(statement.fields)
            case ir.Require():
                self.after(of.expr(statement.condition), plan.Demand(statement.condition, statement.span.line))

    def operator(self, name: str, op: ir.Operator) -> None:
        of = self.of()
        match op:
            case ir.ReduceBlocks():
                count = Need("count", name)
                self.after(
                    of.count(op.vector) | of.expr(op.block), plan.Count(name, "blocks", op.block, op.vector), count
                )
                # init is one expression for all blocks.
                time = self.place(plan.BlocksTo(name, op), op.vector, op.block, self.time(of.expr(op.init)) + 1)
                self.ready[Need("stored", name)] = time
            case ir.Reduce():
                time = self.place(plan.ReduceTo(name, op), op.vector)
                self.ready[Need("scalar", name)] = max(time, self.time(of.expr(op.init)))
            case ir.Filter():
                time = self.place(plan.FilterTo(name, op), op.vector)
                self.ready[Need("stored", name)] = self.ready[Need("count", name)] = time
            case ir.Sort():
                self.sort(name, op)
            case ir.Take():
                self.take(name, op)
            case ir.Gather():
                self.stored(op.indices)
                self.check(op.indices, op.vector, "gather")
            case ir.Scatter():
                self.scatter(name, op)
            case ir.Range() | ir.Fill():
                self.after(of.expr(op.count), plan.Count(name, "exact", op.count), Need("count", name))

    def sort(self, name: str, op: ir.Sort) -> None:
        of = self.of()
        users = self.uses.whole.get(name, [])
        mode: _Mode = "all"
        takes = [user for user in users if isinstance(user, ir.Take)]
        if identity(op.key) and self.vectors.increasing(op.vector):
            pass  # sorted already: Order has no keys then
        elif not users:
            mode = "rank"
        elif len(takes) == len(users) == 1 and name not in self.uses.by_rank:
            return  # the take does it
        self.order(name, op, mode, None, of.count(op.vector))

    def order(self, name: str, op: ir.Sort, mode: _Mode, count: ir.Expr | None, needs: Needs) -> None:
        needs |= self.of().indexed(op.vector)
        if not (identity(op.key) and self.vectors.increasing(op.vector)):
            time = self.place(plan.KeysTo(name, op), op.vector)
            keys = Need("stored", f"keys:{name}")
            self.ready[keys] = time
            needs |= {keys}
        gives = [Need("stored", name)] + ([Need("count", name)] if mode in ("take", "set") else [])
        self.after(needs, plan.Order(name, op.vector, mode, count), *gives)

    def take(self, name: str, op: ir.Take) -> None:
        of = self.of()
        sort = self.vectors.sorted(op.vector)
        needs = of.expr(op.count)
        if sort is None:
            count = plan.Count(name, "take", op.count, op.vector)
            self.after(needs | of.count(op.vector), count, Need("count", name))
            return
        if Need("stored", op.vector) in self.ready:  # the sorted vector has other uses, too
            self.after(
                needs | self.of().element(op.vector) | of.count(op.vector),
                plan.Order(name, op.vector, "take", op.count),
                Need("stored", name),
                Need("count", name),
            )
            return
        resorted = [
            user
            for user in self.uses.whole.get(name, [])
            if isinstance(user, ir.Sort) and identity(user.key) and self.vectors.increasing(sort.vector)
        ]
        only = len(resorted) == len(self.uses.whole.get(name, [])) == 1 and name not in self.uses.by_rank
        self.order(name, sort, "set" if only else "take", op.count, needs | of.count(sort.vector))
        if only:
            # Chosen in their old order, which is the one that the second sort is for.
            definition = self.vectors.definitions[name]
            assert isinstance(definition, Stored)
            self.vectors.definitions[name] = replace(
                definition, op=ir.Filter(vector=sort.vector, predicate=sort.key, span=sort.span)
            )

    def stored(self, vector: str) -> None:
        """Makes sure that the vector is in memory."""
        need = Need("stored", vector)
        if need not in self.ready:
            self.ready[need] = self.place(plan.StoreTo(vector, plan.Target("buffer", vector)), vector)

    def check(self, indices: str, vector: str, operator: Literal["gather", "scatter"]) -> int:
        needs = frozenset((Need("stored", indices),)) | self.of().count(indices) | self.of().count(vector)
        return self.after(needs, plan.CheckIndices(indices, vector, operator))

    def scatter(self, name: str, op: ir.Scatter) -> None:
        self.stored(op.indices)
        checked = self.check(op.indices, op.base, "scatter")
        users = self.uses.whole.get(name, [])
        target = plan.Target("buffer", name)
        only = len(users) == 1 and name not in self.uses.by_rank
        if only and isinstance(users[0], ir.WriteState):
            target = plan.Target("state", users[0].state)
        elif only and isinstance(users[0], ir.WriteGradient) and self.zeros(op.base):
            self.scattered[name] = plan.Target("gradient")
            return
        base = self.place(plan.StoreTo(op.base, target), op.base)
        sink = plan.ScatterTo(op.base, op.indices, op.values, target)
        self.ready[Need("stored", name)] = self.place(sink, op.indices, since=max(base, checked) + 1)
        self.scattered[name] = target

    def zeros(self, vector: str) -> bool:
        definition = self.vectors.definitions[vector]
        if not isinstance(definition, ir.Fill):
            return False
        return isinstance(definition.value, ir.Const) and definition.value.value == 0

    def write_gradient(self, vector: str) -> None:
        """Nothing is written before the whole message has been found good."""
        since = (
            max((t.time for t in self.others if isinstance(t.step, (plan.Demand, plan.CheckIndices))), default=0) + 1
        )
        target = plan.Target("gradient")
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
                time = self.place(plan.StoreTo(item.vector, plan.Target("message", item=number)), item.vector)
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
            inner = _Planner(self.vectors, self.uses, dict.fromkeys(self.ready, 0), scattered=self.scattered)
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
