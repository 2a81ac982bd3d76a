# SPDX-License-Identifier: Apache-2.0
"""The average of tensors over a process group, compressed: encode, exchange, average in rank order, encode, collect.

Topologies "ps" and "allgather" are those of exchange.py. Topology "hierarchical": the ranks of a host first add raw
values, so that each has the sum of its share (`reduce_scatter`). Each rank averages its share, as in "ps", with the
ranks that have the same local rank on the other hosts. Then the ranks of a host collect each other's shares. With G
ranks per host each rank sends 1/G of the tensors to other hosts.

Threads work on different batches at the same time: one encodes and starts the exchange, one averages and starts the
collection, one decodes; with hosts one more at each end. Each thread that starts collectives has process groups of its
own, so that collectives start in the same order on all ranks, whatever else the program does with its group.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from hipress._core import Codec
from hipress._library import load_core
from hipress.errors import HipressError, InvalidArgument, NotInitialized, TransportError
from hipress.log import logger
from hipress.raw_tensors import say_once
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.batch import Batch, Portion
from hipress.torch.process_groups.dtypes import TensorShape, flat_reals
from hipress.torch.process_groups.exact_values import ExactValues
from hipress.torch.process_groups.exchange import Exchange
from hipress.torch.process_groups.group_calls import Group, NewGroup, give_back, known_to_torch
from hipress.torch.process_groups.hierarchical.hosts import Hosts, consecutive, from_groups
from hipress.torch.process_groups.hierarchical.sharing import HostSharing
from hipress.torch.process_groups.host_side import HostSide, Side
from hipress.torch.process_groups.layout import Compressed, Layout, Owners
from hipress.torch.process_groups.linked import LinkedAverage, is_linked, mean_states
from hipress.torch.process_groups.open_step import StepByStep
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.resharding import own_keys, states_for
from hipress.torch.scaling.loss_scale import scaling_of
from hipress.torch.scaling.units import unscaled

Item = TypeVar("Item", Batch, Portion)


@dataclass(frozen=True)
class _Route:
    """How tensors of a batch travel, by their places in it."""

    compressed: Sequence[int]
    exact: Sequence[int]
    names: tuple[str, ...]
    """Of the compressed ones."""
    layout: Layout
    linked: Sequence[int] = ()
    """The tensors whose averages are computed from two summed tensors each."""


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
        self.options = GroupOptions() if options is None else options
        matrices = bool(tensors) and all(shape.rows for shape in tensors.values())
        self.options.check(tensors, matrices=matrices, whole=True)
        self._group = dist.group.WORLD if group is None else group
        if self._group is None:
            raise InvalidArgument("there is no process group: call torch.distributed.init_process_group() first")
        self.world: int = self._group.size()
        self.options.check_sums(self.world)
        self.rank: int = self._group.rank()
        self._shapes: dict[str, TensorShape] = {}
        self._numbers: dict[str, int] = {}
        self._codecs: dict[str, Codec | None] = {}
        self._warm_codecs: dict[str, Codec | None] = {}
        self._routes: dict[tuple[tuple[str, ...], tuple[torch.dtype, ...], str | None], _Route] = {}
        self._error: HipressError | None = None
        check_alike(
            self._group, self.options.described(host_group is not None) + "\n" + _described(tensors), self._side.device
        )
        hosts = self._hosts(host_group)
        #: Of known_to_torch(), with their ranks.
        self._groups: list[tuple[Sequence[int], Group]] = []
        make = _noted(known_to_torch(self._group, self._side.device), self._groups) if new_group is None else new_group
        peers = range(self.world) if hosts is None else hosts.peers(self.rank)
        exchange, collect = make(peers), make(peers)
        seed = self.options.seed + (self.rank * 4 << 32)
        self._linked = LinkedAverage(exchange, collect, seed=seed, numbers=self._numbers, side=self._side)
        #: The steps, which the states of codecs wait for.
        self.steps = StepByStep(self._side, self.options.keeps_states(), self._linked.settle)
        self._exchange = Exchange(
            exchange,
            collect,
            whole=self.options.topology == "allgather",
            seed=seed,
            numbers=self._numbers,
            portion_bytes=self.options.portion_bytes,
            side=self._side,
        )
        self._scaling = scaling_of(self.options.scaler, "GroupOptions(..., scaler=scaler)")
        self._scaling_checked = not self.options.keeps_states()
        self._unit = self._side.unit()
        self._owners = Owners(self._exchange.world)
        self._sharing = None if hosts is None else HostSharing(hosts.neighbours(self.rank), make, self._side)
        self._start_threads()
        self._add(tensors)

    def _hosts(self, host_group: dist.ProcessGroup | None) -> Hosts | None:
        if self.options.topology != "hierarchical":
            if host_group is not None or self.options.ranks_per_host:
                raise InvalidArgument("the ranks of hosts are for topology 'hierarchical' only")
            return None
        if host_group is None:
            return consecutive(self.world, self.options.ranks_per_host)
        if self.options.ranks_per_host:
            raise InvalidArgument("give the group of the host or ranks_per_host, not both")
        return from_groups(self._group, host_group, self._side.device)

    def _start_threads(self) -> None:
        finish, decode = GroupAverage._finish, GroupAverage._decode
        stage = self._side.stage
        self._finishing = None if self._sharing is None else stage("hipress-finish", self._guarded(finish))
        self._decoding = stage("hipress-decode", self._guarded(decode))
        self._averaging = stage("hipress-average", self._guarded(GroupAverage._average))
        self._encoding = stage("hipress-encode", self._guarded(GroupAverage._encode))
        reduce = GroupAverage._reduce
        self._first = self._encoding if self._sharing is None else stage("hipress-reduce", self._guarded(reduce))

    def close(self) -> None:
        """Ends the threads, when the averages that have started are done. All ranks call it between the same steps.

        The groups go with the object; groups that torch keeps are for the next average of this group. Raises the error
        of the last step if no call has raised it.
        """
        for stage in (self._first, self._encoding, self._averaging, self._decoding, self._finishing):
            if stage is not None:
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
            self._numbers[name] = len(self._numbers)
            self._shapes[name] = shape
            codec = self.options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions)
            if codec is not None:
                codec = self._linked.add(name, codec, shape.rows, shape.count, shape.dtype.itemsize)
            self._codecs[name] = codec
            if codec is not None and name not in self._linked:
                if self._sharing is not None:
                    self._sharing.add(name, shape.count)
                piece = self._piece(name)
                if piece is not None:
                    self._owners.add(piece)
        if self.compresses:
            say_once(self.rank, len(self.exact_tensors), len(self._codecs))

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the tensors that travel without a codec."""
        return tuple(name for name, codec in self._codecs.items() if codec is None)

    def _piece(self, name: str, step: int | None = None) -> Compressed | None:
        """What this rank averages of a tensor with its peers, in step `step` or after the warm-up."""
        codec = self._codecs[name] if step is None else self._codec(name, step)
        assert codec is not None
        shape = self._shapes[name]
        if self._sharing is None:
            return Compressed(name, shape.count, codec, dtype=shape.dtype)
        found = self._sharing.piece(name)
        # The sums of a host's ranks are in float32.
        return None if found is None else Compressed(name, found[1], codec, found[0])

    @property
    def residuals(self) -> Any:
        """What codecs remember on this rank."""
        return self._exchange.residuals

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes for other ranks; with hosts: for ranks of other hosts. Of
        factors, statistics and levels: the bytes of a ring."""
        return sum(self._exchange.sent_to) + self._linked.sent_bytes

    @property
    def sent_to(self) -> Sequence[int]:
        """`sent_bytes` by the rank that gets it; with hosts: by host."""
        return tuple(self._exchange.sent_to)

    @property
    def compresses(self) -> bool:
        """Whether a large tensor has a codec other than "none"."""
        return self.options.main_codec().name != "none"

    @property
    def keeps_states(self) -> bool:
        """Whether a codec remembers values from step to step."""
        return self.options.keeps_states()

    def codec_name(self, name: str) -> str:
        """The codec with which the tensor `name` travels."""
        codec = self._codecs[name]
        return "none" if codec is None else codec.name

    def are_exact(self, names: tuple[str, ...], step: int) -> bool:
        """Whether all of these tensors travel without a codec in this step."""
        return all(self._codec(name, step) is None for name in names)

    def _codec(self, name: str, step: int) -> Codec | None:
        """The codec of a tensor in a step; None: it travels exactly."""
        after = self._codecs[name]
        warmup = self.options.warmup
        if after is None or warmup is None or step >= warmup.steps:
            return after
        return self._created(self.options.codec_at(name, step))

    def _created(self, text: str) -> Codec | None:
        if text not in self._warm_codecs:
            codec: Codec = load_core().create_codec(text)
            self._warm_codecs[text] = None if codec.name == "none" else codec
        return self._warm_codecs[text]

    def state_dict(self) -> dict[str, Any]:
        """What codecs remember on this rank. Between two steps only. Raises the error of the last step if no call has
        raised it, as on a GPU errors come later than the calls."""
        self.steps.close()
        scale = self._unit.scale()
        states = unscaled(self._exchange.residuals.state_dict(), scale)
        states.update(unscaled(self._linked.state_dict(), scale, but="factor"))
        if self._error is None:
            self.raise_error()
        return states

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned on this rank of as many ranks. Raises InvalidArgument."""
        self.steps.close()
        counts = {name: shape.count for name, shape in self._shapes.items()}
        others = {key: values for key, values in state.items() if not is_linked(key)}
        tensors, owners = self._remembered()
        own = own_keys(tensors, self._exchange.rank, self._exchange.world, owners)
        codecs = {tensor.name: tensor.codec for tensor in tensors}
        self._exchange.residuals.load_state_dict(others, counts, own, codecs)
        self._linked.load_state_dict({key: values for key, values in state.items() if is_linked(key)})
        self._unit.reset()

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from what state_dict() returned on all ranks, in their order, of a group of any size."""
        tensors, owners = self._remembered()
        exchange = self._exchange
        others = [{key: values for key, values in states.items() if not is_linked(key)} for states in saved]
        states = states_for(tensors, others, exchange.rank, exchange.world, owners, world=self.world)
        self.load_state_dict({**states, **mean_states(saved)})

    def _remembered(self) -> tuple[list[Compressed], Mapping[str, int] | None]:
        """What this rank averages compressed, and the owners as Layout takes them."""
        names = [name for name, codec in self._codecs.items() if codec is not None and name not in self._linked]
        tensors = [piece for piece in map(self._piece, names) if piece is not None]
        return tensors, None if self.options.topology == "allgather" else self._owners.first

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
        if not self._scaling_checked:
            self._scaling.check()
            self._scaling_checked = True
        flat = [self._flat(name, tensor) for name, tensor in named]
        route = self._route(tuple(name for name, _ in named), tuple(tensor.dtype for tensor in flat), step)
        tensors, exact = [flat[place] for place in route.compressed], ExactValues([flat[at] for at in route.exact])
        done = self._side.future()
        of = self.steps.begin([name for name, _ in named], step if key is None else key)
        factor = 1 / self.world if average else 1.0
        batch = Batch(step, factor, tensors, exact, route.layout, done, finish, self.steps.changes, of)
        batch.linked = [(named[place][0], flat[place]) for place in route.linked]
        if self._sharing is not None:
            batch.shards = self._sharing.shards(route.names, exact)
        self._first.put(batch)
        return done

    def _flat(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device != self._side.device:
            raise InvalidArgument(
                f"tensor '{name}' is on {tensor.device}; this compressed average takes tensors on {self._side.device}"
            )
        flat = flat_reals(name, tensor)
        if flat.numel() != self._shapes[name].count:
            raise InvalidArgument(f"tensor '{name}' has {flat.numel()} elements, not {self._shapes[name].count}")
        return flat

    def _route(self, names: tuple[str, ...], dtypes: tuple[torch.dtype, ...], step: int) -> _Route:
        warmup = self.options.warmup
        warm = warmup is not None and step < warmup.steps
        key = (names, dtypes, warmup.codec_at(step, self.options.codec) if warmup is not None and warm else None)
        if key not in self._routes:
            codecs = [self._codec(name, step) for name in names]
            exact = [place for place, codec in enumerate(codecs) if codec is None]
            sent = [place for place, codec in enumerate(codecs) if codec is not None]
            linked = [place for place in sent if names[place] in self._linked]
            others = [place for place in sent if names[place] not in self._linked]
            compressed = tuple(names[place] for place in others)
            owners = None if self.options.topology == "allgather" else self._owners.first
            pieces = [
                piece if self._sharing is not None else replace(piece, dtype=dtypes[place])
                for place in others
                if (piece := self._piece(names[place], step)) is not None
            ]
            self._routes[key] = _Route(
                others,
                exact,
                compressed,
                Layout(pieces, self._exchange.world, owners),
                linked,
            )
        return self._routes[key]

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
            self._fail(_batch(item), error)

    def _fail(self, batch: Batch, error: Exception) -> None:
        if not isinstance(error, HipressError):
            failed = TransportError(f"the process group failed in step {batch.step}: {error}")
            failed.__cause__ = error
            error = failed
        if self._error is None:
            self._error = error
            logger().log(logging.ERROR, "averaging gradients failed: %s", error)
        batch.end_portion(error)

    # The threads, in the order in which a batch passes them.
    def _reduce(self, batch: Batch) -> None:
        assert self._sharing is not None
        self._sharing.reduce(batch)
        self._encoding.put(batch)

    def _encode(self, batch: Batch) -> None:
        self.steps.enter(batch.of)
        self.raise_error()
        tables = [self._exchange.residuals.table, *self._linked.tables()]
        self._unit.follow(self._scaling, tables, self._linked.multiply)
        if self._sharing is not None:
            self._sharing.take_share(batch)
        else:
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
        self._averaging.put(portion)

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
        if not batch.end_portion():
            return
        if self._finishing is None:
            self._try(GroupAverage._finish, batch)
        else:
            self._try(GroupAverage._gather, batch)

    def _gather(self, batch: Batch) -> None:
        assert self._sharing is not None
        assert self._finishing is not None
        self._sharing.gather(batch)
        self._finishing.put(batch)

    def _finish(self, batch: Batch) -> None:
        if self._sharing is not None:
            self._sharing.finish(batch)
            batch.works = []
        else:
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
