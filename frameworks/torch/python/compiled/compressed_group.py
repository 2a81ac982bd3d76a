# SPDX-License-Identifier: Apache-2.0
"""The compressed collectives that graphs start over one process group. A graph names tensors; what codecs remember is
here, under these names."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, NotInitialized
from hipress.torch.compiled.checks import OPERATIONS, check_dtype, check_operation, shard_shape
from hipress.torch.compiled.ending import Ending
from hipress.torch.compiled.shards import ShardGather, Shards, ShardSum
from hipress.torch.fsdp.collective_state import check_without_states
from hipress.torch.installed.private_names import functional_collectives, running_backward_pass, waited_later
from hipress.torch.process_groups.compressing_group import CompressingGroup
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.named_gradients import naming
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.sides import side_for
from hipress.torch.states.place import PLACE, check_place
from hipress.torch.states.state_sum import check_sum, with_sum

if TYPE_CHECKING:
    from hipress._core import Codec

#: Outside of a backward pass, as in a graph of a whole step: a step then ends before a gradient that it has averaged.
_GRAPH = "graph"


class CompressedGroup:
    """The compressed collectives of one process group, and what codecs remember of them. See compress_group()."""

    def __init__(self, averages: CompressingGroup, options: GroupOptions, *, owned: bool) -> None:
        """`averages`: over the ranks of the group. `owned`: nobody else uses it."""
        #: A group of the program's own has a table of these objects, which must not keep it alive.
        self._averages: Callable[[], CompressingGroup | None] = (lambda: averages) if owned else weakref.ref(averages)
        self._owned = owned
        self._closed = False
        self.options = options
        self._keeps_states = options.keeps_states()
        self._sent_in_shards = 0
        #: The backward pass that has averaged a gradient last.
        self._passes: dict[str, int] = {}
        self._shards: dict[torch.device, Shards] = {}
        self._sums: dict[str, ShardSum] = {}
        self._gathers: dict[str, ShardGather] = {}
        #: Of each tensor of which ranks have shards, how often it was added or gathered.
        self._steps: dict[str, int] = {}

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    @property
    def keeps_states(self) -> bool:
        """Whether a codec remembers values from step to step."""
        return self._keeps_states

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self._running().size()

    @property
    def sent_bytes(self) -> int:
        """Bytes of compressed values that this rank has sent."""
        return self._running().sent_bytes + self._sent_in_shards

    def codec_of(self, shape: TensorShape) -> Codec | None:
        """The codec of a tensor; None: it travels exactly."""
        return self.options.codec_of("", shape.count, shape.dtype.itemsize, shape.dimensions)

    def all_reduce(self, tensor: torch.Tensor, op: str, parts: Mapping[str, TensorShape]) -> torch.Tensor:
        """Starts adding or averaging; wait_tensor() waits for what it returns. See functions.all_reduce()."""
        check_operation(op, "all_reduce")
        check_dtype(next(iter(parts), ""), tensor)
        output = tensor.detach().clone(memory_format=torch.contiguous_format)
        self.all_reduce_in_place(output, op, parts)
        return output

    def all_reduce_in_place(self, output: torch.Tensor, op: str, parts: Mapping[str, TensorShape]) -> None:
        """The same in a tensor of contiguous memory itself."""
        check_operation(op, "all_reduce")
        check_dtype(next(iter(parts), ""), output)
        if output.numel() == 0:
            return
        running = running_backward_pass()
        if self._keeps_states and running >= 0:
            self._check_once(parts, running)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(OPERATIONS[op])
        with naming(parts, step=_GRAPH if running < 0 else None):
            work = self._running().allreduce([output], options)
        waited_later(output, work)

    def reduce_scatter(self, tensor: torch.Tensor, op: str, world: int, group: str, name: str) -> torch.Tensor:
        """Starts adding or averaging shards; wait_tensor() waits. See functions.reduce_scatter()."""
        check_operation(op, "reduce_scatter")
        check_dtype(name, tensor)
        self._check_world(world)
        codec = self.codec_of(shard_shape(tensor, world))
        if codec is None:
            exact: torch.Tensor = functional_collectives().reduce_scatter_tensor(tensor, op, world, group)
            return exact
        check_without_states(self.options)
        shards = self._shards_on(tensor.device)
        shards.changes.nan_if_refused = self.options.scaler.leaves_steps_out
        shape = shard_shape(tensor, world)
        if name not in self._sums:
            self._sums[name] = ShardSum(name, shape.count, shape.dtype, codec, shards)
        output = tensor.new_empty((tensor.shape[0] // world, *tensor.shape[1:]))
        factor = 1 / world if op == "avg" else 1.0
        given = tensor.detach().contiguous()
        end = self._sums[name].start(given, output, self._running(), self._next_step(name), factor)
        self._sent_in_shards += self._sums[name].sent
        waited_later(output, Ending(end))
        return output

    def all_gather(self, tensor: torch.Tensor, world: int, group: str, name: str) -> torch.Tensor:
        """Starts gathering shards; wait_tensor() waits. See functions.all_gather()."""
        check_dtype(name, tensor)
        self._check_world(world)
        shape = TensorShape(tensor.numel(), tensor.dtype, tensor.dim())
        codec = self.codec_of(shape)
        if codec is None:
            exact: torch.Tensor = functional_collectives().all_gather_into_tensor(tensor, world, group)
            return exact
        check_without_states(self.options)
        key = f"{name}, gathered"
        if key not in self._gathers:
            self._gathers[key] = ShardGather(name, shape.count, shape.dtype, codec, self._shards_on(tensor.device))
        output = tensor.new_empty((tensor.shape[0] * world, *tensor.shape[1:]))
        given = tensor.detach().contiguous()
        end = self._gathers[key].start(given, output, self._running(), self._next_step(key))
        self._sent_in_shards += self._gathers[key].sent
        waited_later(output, Ending(end))
        return output

    def _check_once(self, names: Mapping[str, TensorShape], running: int) -> None:
        for name in names:
            if self._passes.get(name) == running:
                raise InvalidArgument(
                    f"gradient '{name}' is averaged a second time in one backward pass, and error feedback keeps one "
                    "residual under a name: the program runs one compiled graph for several layers. Compile the whole "
                    "model, so that each gradient has a place of its own, or take a codec without error feedback"
                )
            self._passes[name] = running

    def _check_world(self, world: int) -> None:
        if world != self.world:
            raise InvalidArgument(f"the group has {self.world} ranks, and the graph was traced for {world}")

    def _shards_on(self, device: torch.device) -> Shards:
        if device not in self._shards:
            running = self._running()
            ranks = Ranks(running.rank(), running.size())
            self._shards[device] = Shards(side_for({"the graph": device}), ranks, self.options.seed)
        return self._shards[device]

    def _next_step(self, name: str) -> int:
        step = self._steps.get(name, 0)
        self._steps[name] = step + 1
        return step

    def state_dict(self) -> dict[str, Any]:
        """What codecs remember on this rank. Between two steps only; every rank saves its own."""
        running = self._running()
        state = {"averages": running.state_dict(), "shards": dict(self._steps)}
        return with_sum({**state, PLACE: [running.rank(), running.size()]})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from state_dict() of the same rank of as many ranks. All ranks call it. Raises InvalidArgument."""
        _check_state(state)
        self._running().load_state_dict(state["averages"])
        check_place(state, [self._running().rank(), self._running().size()])
        self._steps = {name: int(step) for name, step in state["shards"].items()}

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from state_dict() of all ranks of an earlier job, in rank order, with any number of ranks. All ranks
        call it. Raises InvalidArgument."""
        if isinstance(saved, Mapping) or not saved:
            raise InvalidArgument("load_states_of() takes a list with the states of all ranks, at least one")
        for each in saved:
            _check_state(each)
        self._running().load_states_of([each["averages"] for each in saved])
        self._steps = {name: int(step) for name, step in saved[0]["shards"].items()}

    def close(self) -> None:
        """Ends the threads, and frees groups and states. All ranks call it, between two steps. Graphs with the group's
        operators then raise NotInitialized."""
        averages, self._averages, self._closed = self._averages(), lambda: None, True
        self._shards.clear()
        self._sums.clear()
        self._gathers.clear()
        if averages is not None and self._owned:
            averages.shutdown()

    def _running(self) -> CompressingGroup:
        running = self._averages()
        if running is None:
            raise NotInitialized(
                "the compressed collectives of this group were closed: trace the graph without compress_graph(), or "
                "call compress_group() again"
            )
        return running


def _check_state(state: Mapping[str, Any]) -> None:
    if not isinstance(state, Mapping) or "averages" not in state or "shards" not in state:
        raise InvalidArgument("this is no state_dict() of a group that compress_group() has returned")
    check_sum(state)
