# SPDX-License-Identifier: Apache-2.0
"""The average of tensors over a process group, compressed, by the program of a topology (exchange.py).

Threads work on different batches at the same time: one encodes and starts the first hop, one does the runs between two
hops, one does the last run. Each thread that starts collectives has a process group of its own, so that collectives
start in the same order on all ranks, whatever else the program does with its group.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from hipress.errors import HipressError, InvalidArgument, NotInitialized, TransportError
from hipress.log import logger
from hipress.raw_tensors import count_sent, ring_bytes, say_once
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.batch import Batch, ExactValues, Portion
from hipress.torch.process_groups.dtypes import TensorShape, flat_reals, reals_of
from hipress.torch.process_groups.exchange import Exchange
from hipress.torch.process_groups.group_calls import Group, NewGroup, give_back, known_to_torch
from hipress.torch.process_groups.linked import LinkedAverage, check_factors
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.ranks import Hosts, Ranks, consecutive, from_groups
from hipress.torch.process_groups.routes import Routes
from hipress.torch.process_groups.side import HostSide, Side
from hipress.torch.process_groups.states.average_states import AverageStates
from hipress.torch.process_groups.states.open_step import StepByStep
from hipress.torch.process_groups.states.unsent import Unsent
from hipress.torch.reals import as_reals
from hipress.torch.scaling.loss_scale import scaling_of

Item = TypeVar("Item", Batch, Portion)


class GroupAverage:
    """Averages tensors in place over a process group, again and again.

    Arguments:
        tensors: shapes by name, the same on all ranks of the group. declare() adds more.
        group: None: the default group. All of its ranks make a GroupAverage at the same time.
        options: which codec, and how.
        host_group: with topology "hierarchical", instead of `ranks_per_host`: the group of the ranks of this host.
        new_group: makes other groups of ranks of `group`; None: torch.distributed does.
        side: where the ranks compute, and the group's tensors are; None: the processor. A GpuSide does not take
            codec powersgd (Unsupported).

    Raises InvalidArgument; Mismatch on all ranks, with the first difference, if the ranks' tensors or options differ;
    TransportError if a rank of the group makes none within the group's timeout.
    """

    def __init__(
        self,
        tensors: Mapping[str, TensorShape],
        group: Group = None,
        options: GroupOptions | None = None,
        *,
        host_group: dist.ProcessGroup | None = None,
        new_group: NewGroup | None = None,
        side: Side | None = None,
    ) -> None:
        self._side: Side = HostSide() if side is None else side
        self._group = dist.group.WORLD if group is None else group
        if self._group is None:
            raise InvalidArgument("there is no process group: call torch.distributed.init_process_group() first")
        self.world: int = self._group.size()
        self.rank: int = self._group.rank()
        self._error: HipressError | None = None
        self._host_group = host_group
        options = GroupOptions() if options is None else options
        self._check(options, tensors)
        hosts = self._hosts(options)
        #: Bytes of factors, statistics and levels before the last change().
        self._sent_of_linked = 0
        #: Of known_to_torch(), with their ranks.
        self._groups: list[tuple[Sequence[int], Group]] = []
        make = _noted(known_to_torch(self._group, self._side.device), self._groups) if new_group is None else new_group
        self._collectives = make(range(self.world)), make(range(self.world))
        self._scaling = scaling_of(options.scaler, "GroupOptions(..., scaler=scaler)")
        self._build(options, tensors, hosts)
        self._start_threads()

    def __del__(self) -> None:
        self._side.ended()

    def _check(self, options: GroupOptions, tensors: Mapping[str, TensorShape]) -> None:
        """Raises InvalidArgument, Unsupported; Mismatch on all ranks."""
        matrices = bool(tensors) and all(shape.rows for shape in tensors.values())
        options.check(tensors, matrices=matrices, whole=True)
        options.check_sums(self.world)
        options.check_plan(tensors, self.world)
        # Before there are groups: a rank that ends closes connections that another one may still make.
        for name, shape in tensors.items():
            check_factors(options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions), self._side)
        same = f"{options.described(self._host_group is not None)}\n{_described(tensors)}"
        check_alike(self._group, same, self._side.device)

    def _hosts(self, options: GroupOptions) -> Hosts | None:
        if not options.is_hierarchical:
            if self._host_group is not None or options.ranks_per_host:
                raise InvalidArgument("the ranks of hosts are for topology 'hierarchical' only")
            return None
        if self._host_group is None:
            return consecutive(self.world, options.ranks_per_host)
        if options.ranks_per_host:
            raise InvalidArgument("give the group of the host or ranks_per_host, not both")
        return from_groups(self._group, self._host_group, self._side.device)

    def _build(self, options: GroupOptions, tensors: Mapping[str, TensorShape], hosts: Hosts | None) -> None:
        """What depends on the options. Threads and groups do not."""
        self.options = options
        exchange, collect = self._collectives
        seed = options.seed + (self.rank * 4 << 32)
        self._linked = LinkedAverage(exchange, collect, seed=seed, side=self._side)
        self._unsent = Unsent(self._side)
        #: The steps, which the states of codecs wait for.
        self.steps = StepByStep(
            self._side, options.keeps_states(), (self._linked.settle, self._unsent.settle), self._unsent.look
        )
        #: With hosts: of each rank.
        self._hosts_of = () if hosts is None else hosts.of_ranks()
        ranks = Ranks(self.rank, self.world, options.topology, self._hosts_of)
        self._exchange = Exchange(
            exchange,
            collect,
            ranks,
            seed=seed,
            portion_bytes=options.portion_bytes,
            side=self._side,
        )
        self._scaling_checked = not options.keeps_states()
        self._unit = self._side.unit()
        self._states = AverageStates(self._exchange, self._linked, self._unsent, self._unit)
        self._routes = Routes(options, self._linked, ranks)
        self._add(tensors)

    def change(self, options: GroupOptions) -> None:
        """Averages with other options from the next step on. All ranks call it between the same two steps.

        A state goes on if the new codec has it and this rank encodes the same elements. Other residuals join the next
        gradients: nothing is lost of them.

        Raises the errors of the constructor; everything is then as before.
        """
        self.raise_error()
        tensors = self._routes.shapes
        self._check(options, tensors)
        hosts = self._hosts(options)
        states = self.state_dict()
        before = dict(vars(self))
        sent_to, linked = self._exchange.sent_to, self._linked.sent_bytes
        try:
            self._build(options, tensors, hosts)
            self._states.load(states, self._routes.travelling(), moved=True)
        except HipressError:
            vars(self).update(before)
            raise
        self._exchange.sent_to = sent_to
        self._sent_of_linked += linked
        self._follow_unsent()

    def _start_threads(self) -> None:
        stage = self._side.stage
        self._decoding = stage("hipress-decode", self._guarded(GroupAverage._decode))
        self._averaging = stage("hipress-average", self._guarded(GroupAverage._average))
        self._encoding = stage("hipress-encode", self._guarded(GroupAverage._encode))

    def close(self) -> None:
        """Ends the threads, when the averages that have started are done. All ranks call it between the same steps.

        The groups go with the object; groups that torch keeps are for the next average of this group. Raises the error
        of the last step if no call has raised it.
        """
        for stage in (self._encoding, self._averaging, self._decoding):
            stage.close()
        self._side.synchronize()
        if self._error is None:
            for ranks, made in self._groups:
                give_back(self._group, ranks, made)
            self._groups.clear()
            late = self._side.failure()
            self._error = NotInitialized("the compressed average was closed, and averages nothing more")
            if late is not None:
                raise late

    def declare(self, tensors: Mapping[str, TensorShape]) -> None:
        """Adds tensors, the same on all ranks, which all call this in one order. Raises Mismatch."""
        check_alike(self._group, _described(tensors), self._side.device)
        self._add(tensors)

    def _add(self, tensors: Mapping[str, TensorShape]) -> None:
        for name, shape in tensors.items():
            self._routes.add(name, shape)
        if self.compresses:
            say_once(self.rank, len(self.exact_tensors), len(self._routes))
        count_sent(0)

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the tensors that travel without a codec."""
        return self._routes.exact_tensors

    @property
    def residuals(self) -> Any:
        """What codecs remember on this rank."""
        return self._exchange.residuals

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes for other ranks; with hosts: for ranks of other hosts. Of
        factors, statistics and levels: the bytes of a ring."""
        own = self._hosts_of[self.rank] if self._hosts_of else -1
        hosts = self._hosts_of or range(self.world)
        sent = sum(size for host, size in zip(hosts, self._exchange.sent_to, strict=True) if host != own)
        return sent + self._sent_of_linked + self._linked.sent_bytes

    @property
    def sent_to(self) -> Sequence[int]:
        """The same by the rank that gets it, also of this host."""
        return tuple(self._exchange.sent_to)

    @property
    def compresses(self) -> bool:
        """See GroupOptions."""
        return self.options.compresses

    @property
    def keeps_states(self) -> bool:
        """Whether this rank remembers values from step to step."""
        return self.steps.keeps_states

    def codec_of(self, name: str) -> str:
        """The codec, with all options, with which the tensor `name` travels."""
        return self._routes.codec_of(name)

    def are_exact(self, names: tuple[str, ...], step: int) -> bool:
        """Whether all of these tensors travel without a codec in this step."""
        return self._routes.are_exact(names, step)

    def count_exact(self, named: Sequence[tuple[str, torch.Tensor]], step: int) -> None:
        """Somebody else sends these tensors in this step, as they are. counters() counts each that has a codec."""
        left_out = (tensor for name, tensor in named if self._routes.is_left_out(name, step))
        count_sent(ring_bytes(self.world, sum(tensor.nbytes for tensor in left_out)))

    def state_dict(self) -> dict[str, Any]:
        """What codecs remember on this rank. Between two steps only. Raises the error of the last step if no call has
        raised it, as on a GPU errors come later than the calls."""
        self.steps.close()
        states = self._states.state_dict()
        if self._error is None:
            self.raise_error()
        return states

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned on this rank of as many ranks. Raises InvalidArgument.

        The residuals of tensors whose codec keeps none join their next gradients.
        """
        self.steps.close()
        self._states.load(state, self._routes.travelling())
        self._follow_unsent()

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from what state_dict() returned on all ranks, in their order, of a group of any size."""
        self.steps.close()
        self._states.load_of_all(saved, self._routes.travelling())
        self._follow_unsent()

    def carry(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned on this rank in an earlier group, also of other ranks, which bring
        their own. No rank waits for another one. Both groups give sums (`average=False`). Raises InvalidArgument."""
        self.steps.close()
        self._states.carry(state, self._routes.travelling())
        self._follow_unsent()

    def _follow_unsent(self) -> None:
        """A step that does not count sends no values of Unsent, and they have a unit, as states have."""
        if self._unsent:
            self.steps.keep_states()
            self._scaling_checked = False

    def owes(self, names: Collection[str]) -> bool:
        """Whether the next average of one of these tensors gets values that an earlier job's codec held back."""
        return self._unsent.are_of(names)

    def another(
        self, named: Sequence[tuple[str, torch.Tensor]], key: Hashable, factor: float
    ) -> Callable[[torch.Tensor | None], None] | None:
        """Somebody else averages these tensors, which travel without a codec: see StepByStep.another(). They get what
        earlier codecs held back of them.

        Arguments:
            key, factor: as of a batch of the step.
        """
        if self._unsent:
            self._check_scaling()
        scale = self._scale_of_unsent()  # before the step begins: it may raise
        ended = self.steps.another(key)
        if ended is not None and self._unsent:
            self._checked(named)
            self._unsent.join([(name, flat_reals(tensor)) for name, tensor in named], scale, factor)
        return ended

    def _check_scaling(self) -> None:
        if not self._scaling_checked:
            self._scaling.check()
            self._scaling_checked = True

    def _scale_of_unsent(self) -> float | torch.Tensor:
        if not self._unsent:
            return 1.0
        tensor = self._scaling.tensor
        return self._scaling.now() if tensor is None else tensor

    def raise_error(self) -> None:
        """Raises what made an earlier batch fail."""
        if self._error is None:
            self._error = self._side.failure()
        if self._error is not None:
            raise self._error

    def start(
        self,
        named: Sequence[tuple[str, torch.Tensor]],
        step: int,
        finish: Callable[[], None] | None = None,
        *,
        average: bool = True,
        key: Hashable = None,
    ) -> torch.futures.Future[Any]:
        """Starts averaging these tensors in place; returns at once. All ranks start the same batches in one order.

        If an average of a step is not finite, the states of codecs are after the step what they were before it, on all
        ranks and for all tensors of the step.

        Arguments:
            named: names, and tensors that no other code touches until the future is done. Their values lie in memory
                without gaps, in an order that is the same on all ranks.
            step: how many steps there were before.
            finish: called before the future is done, when all values are there.
            average: False: the sum.
            key: what the batches of a step have in common; None: `step`. A step ends before a batch with another key,
                or with a tensor that it has averaged already.

        The future gets what made the batch fail; from then on start() raises it.
        """
        self.raise_error()
        self._check_scaling()
        names, dtypes = self._checked(named)
        route = self._routes.route(names, dtypes, step)
        count_sent(ring_bytes(self.world, route.raw_bytes))
        tensors = [as_reals(named[place][1]) for place in route.compressed]
        exact = ExactValues([flat_reals(named[place][1]) for place in route.exact])
        done = self._side.future()
        scale = self._scale_of_unsent()  # before the step begins: it may raise
        of = self.steps.begin(names, step if key is None else key)
        self.steps.changes.nan_if_refused = self._scaling.leaves_steps_out
        factor = 1 / self.world if average else 1.0
        if self._unsent:
            self.steps.enter_now(of)
            self._unsent.join([(name, flat_reals(tensor)) for name, tensor in named], scale, factor)
        batch = Batch(step, factor, tensors, exact, route.layout, done, finish, self.steps.changes, of)
        batch.linked = [(names[place], flat_reals(named[place][1])) for place in route.linked]
        self._encoding.put(batch)
        return done

    def _checked(self, named: Sequence[tuple[str, torch.Tensor]]) -> tuple[tuple[str, ...], tuple[torch.dtype, ...]]:
        """The names, and the types of the real numbers. Raises InvalidArgument."""
        names, dtypes = [], []
        device, shapes = self._side.device, self._routes.shapes
        for name, tensor in named:
            if tensor.device != device:
                raise InvalidArgument(
                    f"tensor '{name}' is on {tensor.device}; this compressed average takes tensors on {device}"
                )
            dtype, count = reals_of(name, tensor)
            if count != shapes[name].count:
                raise InvalidArgument(f"tensor '{name}' has {count} elements, not {shapes[name].count}")
            names.append(name)
            dtypes.append(dtype)
        return tuple(names), tuple(dtypes)

    def _guarded(self, work: Callable[[GroupAverage, Item], None]) -> Callable[[Item], None]:
        """`work` for a thread that does not keep this object alive. An error ends the batch, and all later ones."""
        reference = weakref.ref(self)

        def guarded(item: Item) -> None:
            target = reference()
            if target is None:
                _batch(item).end_portion(HipressError("the compressed average was deleted while it was running"))
                return
            target._try(work, item)

        return guarded

    def _try(self, work: Callable[[GroupAverage, Item], None], item: Item) -> None:
        try:
            if self._error is not None:  # not what a GPU tells only now: other ranks wait for this rank's collectives
                raise self._error
            work(self, item)
        except Exception as error:
            self._fail(item, error)

    def _fail(self, item: Item, error: Exception) -> None:
        batch = _batch(item)
        if isinstance(item, Portion):
            self._exchange.drop(item)
        if not isinstance(error, HipressError):
            failed = TransportError(f"the process group failed in step {batch.step}: {error}")
            failed.__cause__ = error
            error = failed
        if self._error is None:
            self._error = error
            logger().log(logging.ERROR, "averaging gradients failed: %s", error)
        batch.end_portion(error)

    # The threads, in the order in which a batch passes them.
    def _encode(self, batch: Batch) -> None:
        self.steps.enter(batch.of)
        self.raise_error()
        tables = [self._exchange.residuals.table, *self._linked.tables()]
        self._unit.follow(self._scaling, tables, self._linked.multiply)
        batch.values = [self._side.values(tensor) for tensor in batch.tensors]
        batch.together = batch.exact.joined()
        for values in batch.together:
            self._side.used_by_all(values)
        portions = self._exchange.split(batch)
        portions[-1].linked = batch.linked
        for portion in portions:
            self._try(GroupAverage._send, portion)

    def _send(self, portion: Portion) -> None:
        self._exchange.encode(portion)
        batch = portion.batch
        portion.sums = self._linked.start(portion.linked, batch.step, batch.factor, batch.changes)
        (self._averaging if portion.has_second_hop else self._decoding).put(portion)

    def _average(self, portion: Portion) -> None:
        if portion.sums is not None:
            self._linked.go_on(portion.sums)
        self._exchange.average(portion)
        self._decoding.put(portion)

    def _decode(self, portion: Portion) -> None:
        self._exchange.decode(portion)
        if portion.sums is not None:
            if not self._linked.finish(portion.sums):
                self.steps.changes.discard()
            portion.sums = None
        batch = portion.batch
        if batch.end_portion():
            self._try(GroupAverage._finish, batch)

    def _finish(self, batch: Batch) -> None:
        batch.exact.put_back(batch.together)
        if batch.finish is not None:
            batch.finish()
        batch.succeed(batch.any_tensor() if self._side.device.type == "cuda" else None)


def _batch(item: Batch | Portion) -> Batch:
    return item if isinstance(item, Batch) else item.batch


def _described(tensors: Mapping[str, TensorShape]) -> str:
    return "\n".join(f"{name}: {shape.count} elements of {shape.dtype}" for name, shape in tensors.items())


def _noted(make: NewGroup, made: list[tuple[Sequence[int], Group]]) -> NewGroup:
    """`make`, which also notes what it makes."""

    def new_group(ranks: Sequence[int]) -> Group:
        made.append((ranks, make(ranks)))
        return made[-1][1]

    return new_group
