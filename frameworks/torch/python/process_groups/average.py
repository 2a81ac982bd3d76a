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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hipress._core import Codec
from hipress._library import load_core
from hipress.errors import HipressError, InvalidArgument, TransportError
from hipress.log import logger
from hipress.torch.process_groups.agreement import check_alike
from hipress.torch.process_groups.batch import Batch
from hipress.torch.process_groups.exchange import Exchange
from hipress.torch.process_groups.group_calls import Group, NewGroup, known_to_torch
from hipress.torch.process_groups.host_sharing import HostSharing
from hipress.torch.process_groups.hosts import Hosts, consecutive, from_groups
from hipress.torch.process_groups.layout import Compressed, Layout, Owners
from hipress.torch.process_groups.low_rank import LowRankAverage, is_factors, matrix_of, mean_states
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.resharding import states_for
from hipress.torch.process_groups.stage import Stage


@dataclass(frozen=True)
class TensorShape:
    """What all ranks know about a tensor."""

    count: int
    """Elements."""
    element_bytes: int
    dimensions: int
    rows: int = 0
    """The first dimension, for codec "powersgd"; 0: the tensor is no matrix."""


class GroupAverage:
    """Averages tensors in place over a process group of CPU tensors, again and again.

    Arguments:
        tensors: shapes by name, the same on all ranks of the group. declare() adds more.
        group: None: the default group. All of its ranks make a GroupAverage at the same time.
        options: which codec, and how.
        host_group: with topology "hierarchical", instead of `ranks_per_host`: the group of the ranks of this host.
        new_group: makes other groups of ranks of `group`; None: torch.distributed does.

    Raises InvalidArgument; Mismatch on all ranks, with the first difference, if the ranks' tensors or options differ.
    """

    def __init__(
        self,
        tensors: Mapping[str, TensorShape],
        group: Group = None,
        options: GroupOptions | None = None,
        *,
        host_group: dist.ProcessGroup | None = None,
        new_group: NewGroup | None = None,
    ) -> None:
        self.options = GroupOptions() if options is None else options
        self.options.check(tensors, matrices=bool(tensors) and all(shape.rows for shape in tensors.values()))
        self._group = dist.group.WORLD if group is None else group
        if self._group is None:
            raise InvalidArgument("there is no process group: call torch.distributed.init_process_group() first")
        self.world: int = self._group.size()
        self.rank: int = self._group.rank()
        self._shapes: dict[str, TensorShape] = {}
        self._numbers: dict[str, int] = {}
        self._codecs: dict[str, Codec | None] = {}
        self._warm_codecs: dict[str, Codec | None] = {}
        self._layouts: dict[tuple[tuple[str, str], ...], Layout] = {}
        self._error: HipressError | None = None
        check_alike(self._group, self.options.described(host_group is not None) + "\n" + _described(tensors))
        hosts = self._hosts(host_group)
        make = known_to_torch(self._group) if new_group is None else new_group
        peers = range(self.world) if hosts is None else hosts.peers(self.rank)
        exchange, collect = make(peers), make(peers)
        self._low_rank = LowRankAverage(exchange, collect)
        self._exchange = Exchange(
            exchange,
            collect,
            whole=self.options.topology == "allgather",
            seed=self.options.seed + (self.rank * 4 << 32),
            numbers=self._numbers,
        )
        self._owners = Owners(self._exchange.world)
        self._sharing = None if hosts is None else HostSharing(hosts.neighbours(self.rank), make)
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
        return from_groups(self._group, host_group)

    def _start_threads(self) -> None:
        self._last = Stage("hipress-decode", self._guarded(GroupAverage._finish))
        gather, average = GroupAverage._gather, GroupAverage._average
        self._gathering = self._last if self._sharing is None else Stage("hipress-gather", self._guarded(gather))
        self._averaging = Stage("hipress-average", self._guarded(average))
        self._encoding = Stage("hipress-encode", self._guarded(GroupAverage._encode))
        reduce = GroupAverage._reduce
        self._first = self._encoding if self._sharing is None else Stage("hipress-reduce", self._guarded(reduce))

    def declare(self, tensors: Mapping[str, TensorShape]) -> None:
        """Adds tensors, the same on all ranks, which all call this in one order. Raises Mismatch."""
        check_alike(self._group, _described(tensors))
        self._add(tensors)

    def _add(self, tensors: Mapping[str, TensorShape]) -> None:
        for name, shape in tensors.items():
            self._numbers[name] = len(self._numbers)
            self._shapes[name] = shape
            codec = self.options.codec_of(name, shape.count, shape.element_bytes, shape.dimensions)
            if codec is not None and codec.low_rank is not None:
                how = matrix_of(codec, shape.rows, shape.count)
                codec = None if how is None else codec
                if how is not None:
                    self._low_rank.add(name, how)
            self._codecs[name] = codec
            if codec is not None and name not in self._low_rank:
                if self._sharing is not None:
                    self._sharing.add(name, shape.count)
                piece = self._piece(name)
                if piece is not None:
                    self._owners.add(piece)

    def _piece(self, name: str, step: int | None = None) -> Compressed | None:
        """What this rank averages of a tensor with its peers, in step `step` or after the warm-up."""
        codec = self._codecs[name] if step is None else self._codec(name, step)
        assert codec is not None
        if self._sharing is None:
            return Compressed(name, self._shapes[name].count, codec)
        found = self._sharing.piece(name)
        return None if found is None else Compressed(name, found[1], codec, found[0])

    @property
    def residuals(self) -> Any:
        """What codecs remember on this rank."""
        return self._exchange.residuals

    @property
    def sent_bytes(self) -> int:
        """What this rank has given to collectives of bytes for other ranks; with hosts: for ranks of other hosts. Of
        codec powersgd what a ring sends of the factors."""
        return sum(self._exchange.sent_to) + self._low_rank.sent_bytes

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
        """Whether the codec remembers values from step to step."""
        codec = self.options.main_codec()
        return bool(codec.states or (codec.low_rank is None and codec.for_aggregate().states))

    def codec_name(self, name: str) -> str:
        """The codec with which the tensor `name` travels."""
        codec = self._codecs[name]
        return "none" if codec is None else codec.name

    def is_exact(self, name: str, step: int) -> bool:
        """Whether the tensor travels without a codec in this step."""
        return self._codec(name, step) is None

    def is_warming_up_exactly(self, step: int) -> bool:
        """Whether tensors without a codec of their own travel without one in this step, and not later."""
        warmup = self.options.warmup
        return (
            warmup is not None
            and step < warmup.steps
            and self._created(warmup.codec_at(step, self.options.codec)) is None
        )

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
        """What codecs remember on this rank. Between two steps only."""
        return {**self._exchange.residuals.state_dict(), **self._low_rank.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what state_dict() returned on this rank of as many ranks. Raises InvalidArgument."""
        counts = {name: shape.count for name, shape in self._shapes.items()}
        self._low_rank.load_state_dict({key: values for key, values in state.items() if is_factors(key)})
        others = {key: values for key, values in state.items() if not is_factors(key)}
        self._exchange.residuals.load_state_dict(others, counts)

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from what state_dict() returned on all ranks, in their order, of a group of any size."""
        names = [name for name, codec in self._codecs.items() if codec is not None and name not in self._low_rank]
        tensors = [piece for piece in map(self._piece, names) if piece is not None]
        owners = None if self.options.topology == "allgather" else self._owners.first
        exchange = self._exchange
        others = [{key: values for key, values in states.items() if not is_factors(key)} for states in saved]
        states = states_for(tensors, others, exchange.rank, exchange.world, owners, world=self.world)
        self.load_state_dict({**states, **mean_states(saved)})

    def raise_error(self) -> None:
        """Raises what made an earlier batch fail."""
        if self._error is not None:
            raise self._error

    def start(
        self,
        named: Sequence[tuple[str, torch.Tensor]],
        step: int,
        finish: Callable[[], None] | None = None,
        *,
        average: bool = True,
    ) -> torch.futures.Future[None]:
        """Starts averaging these tensors in place; returns at once. All ranks start the same batches in one order.

        Arguments:
            named: names, and tensors that nobody touches until the future is done. Their values lie in memory without
                gaps, in an order that is the same on all ranks.
            step: how many steps there were before.
            finish: called before the future is done, when all values are there.
            average: False: the sum.

        The future gets what made the batch fail; from then on start() raises it.
        """
        self.raise_error()
        flat = [(name, self._flat(name, tensor)) for name, tensor in named]
        exact = [tensor for name, tensor in flat if self.is_exact(name, step)]
        sent = [(name, tensor) for name, tensor in flat if not self.is_exact(name, step)]
        compressed = [(name, tensor) for name, tensor in sent if name not in self._low_rank]
        names = tuple(name for name, _ in compressed)
        tensors = [tensor for _, tensor in compressed]
        done: torch.futures.Future[None] = torch.futures.Future()
        batch = Batch(step, 1 / self.world if average else 1.0, tensors, exact, self._layout(names, step), done, finish)
        batch.matrices = [(name, tensor) for name, tensor in sent if name in self._low_rank]
        if self._sharing is not None:
            batch.shards = self._sharing.shards(names, [tensor.numel() for tensor in exact])
        self._first.put(batch)
        return done

    def _flat(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu":
            raise InvalidArgument(f"tensor '{name}' is on {tensor.device}; a compressed average takes CPU tensors")
        if not tensor.dtype.is_floating_point:
            raise InvalidArgument(f"tensor '{name}' has elements of type {tensor.dtype}; codecs take floating point")
        if tensor.numel() != self._shapes[name].count:
            raise InvalidArgument(f"tensor '{name}' has {tensor.numel()} elements, not {self._shapes[name].count}")
        return tensor.detach().as_strided((tensor.numel(),), (1,))

    def _layout(self, names: tuple[str, ...], step: int) -> Layout:
        key = tuple((name, self.options.codec_at(name, step)) for name in names)
        if key not in self._layouts:
            owners = None if self.options.topology == "allgather" else self._owners.first
            pieces = [piece for name in names if (piece := self._piece(name, step)) is not None]
            self._layouts[key] = Layout(pieces, self._exchange.world, owners)
        return self._layouts[key]

    def _guarded(self, work: Callable[[GroupAverage, Batch], None]) -> Callable[[Batch], None]:
        """`work` for a thread that does not keep this object alive. An error ends the batch, and all later ones."""
        reference = weakref.ref(self)

        def guarded(batch: Batch) -> None:
            target = reference()
            if target is None:
                gone = HipressError("the compressed average was deleted while it was running")
                return batch.done.set_exception(gone)  # type: ignore[arg-type]
            try:
                target.raise_error()
                work(target, batch)
            except Exception as error:
                target._fail(batch, error)

        return guarded

    def _fail(self, batch: Batch, error: Exception) -> None:
        if not isinstance(error, HipressError):
            failed = TransportError(f"the process group failed in step {batch.step}: {error}")
            failed.__cause__ = error
            error = failed
        if self._error is None:
            self._error = error
            logger().log(logging.ERROR, "averaging gradients failed: %s", error)
        self._exchange.residuals.undo(batch.encoded)
        batch.done.set_exception(error)  # type: ignore[arg-type]

    # The threads, in the order in which a batch passes them.
    def _reduce(self, batch: Batch) -> None:
        assert self._sharing is not None
        self._sharing.reduce(batch)
        self._encoding.put(batch)

    def _encode(self, batch: Batch) -> None:
        if self._sharing is not None:
            self._sharing.take_share(batch)
        else:
            batch.values = [tensor.float().numpy() for tensor in batch.tensors]
            batch.results = batch.tensors
            if batch.exact:
                batch.together = torch.cat([tensor.float() for tensor in batch.exact]).mul_(batch.factor)
        self._exchange.encode(batch)
        batch.factors = self._low_rank.start(batch.matrices, batch.step, batch.factor)
        self._averaging.put(batch)

    def _average(self, batch: Batch) -> None:
        if batch.factors is not None:
            self._low_rank.go_on(batch.factors)
        self._exchange.average(batch)
        self._gathering.put(batch)

    def _gather(self, batch: Batch) -> None:
        assert self._sharing is not None
        self._exchange.decode(batch)
        self._sharing.gather(batch)
        self._last.put(batch)

    def _finish(self, batch: Batch) -> None:
        if self._sharing is not None:
            self._sharing.finish(batch)
        else:
            self._exchange.decode(batch)
            if batch.together is not None:
                lengths = [tensor.numel() for tensor in batch.exact]
                for tensor, values in zip(batch.exact, batch.together.split(lengths), strict=True):
                    tensor.copy_(values)
        if batch.factors is not None:
            self._low_rank.finish(batch.factors)
        batch.work = batch.exact_work = batch.factors = None
        if batch.finish is not None:
            batch.finish()
        batch.done.set_result(None)


def _described(tensors: Mapping[str, TensorShape]) -> str:
    return "\n".join(f"{name}: {shape.count} elements" for name, shape in tensors.items())
