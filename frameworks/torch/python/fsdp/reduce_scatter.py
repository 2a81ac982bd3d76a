# SPDX-License-Identifier: Apache-2.0
"""FSDP2's reduce-scatter, compressed: each rank encodes every other rank's shard of the gradients and sends it there.
Each rank adds the received shards in float32, in rank order; its own values are not encoded.

ZeRO++'s qgZ (arXiv 2306.10209, section 3.3) does the same in two hops; here there is one. The ranks encode values once
and never encode results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, Mismatch
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.raw_tensors import count_sent, say_once
from hipress.torch.fsdp.collective_state import CollectiveState, check_units_alike, check_without_states
from hipress.torch.fsdp.units import Unit, units_of
from hipress.torch.installed.private_names import ReduceScatter
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.layout import payload_room
from hipress.torch.process_groups.options import GroupOptions, chosen_codec
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, Side
from hipress.torch.process_groups.sides import side_for
from hipress.torch.process_groups.slots import Slots, shard_slots
from hipress.torch.reals import as_reals
from hipress.torch.scaling.loss_scale import LossScale

if TYPE_CHECKING:
    from hipress._core import SlotTensors

#: torch calls it reduce_scatter_tensor up to version 2.12.
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def compress_reduce_scatter(
    model: torch.nn.Module,
    codec: str | None = None,
    *,
    min_compress_bytes: int = MIN_COMPRESS_BYTES,
    compress_vectors: bool = False,
    codec_for: Mapping[str, str] | None = None,
    seed: int = 0,
    scaler: Any = None,
) -> ReduceScatterState:
    """Compresses the sums of gradients over the ranks that share the model; returns a state that counts the sent bytes.

    All ranks call it after `fully_shard` and before the first backward pass, with the same arguments.

    Arguments:
        model: sharded by `fully_shard`, on the CPU or an NVIDIA GPU.
        codec: a codec without error feedback, such as "fp16" or "terngrad". With error feedback each rank would keep a
            residual of the whole model, and FSDP exists to avoid such memory.
        min_compress_bytes: smaller shards travel raw.
        compress_vectors: as of `hipress.torch.ddp.compress()`.
        codec_for: as of `hipress.torch.ddp.compress()`.
        seed: as of `hipress.torch.ddp.compress()`.
        scaler: a torch.amp.GradScaler that scales the loss; then a refused payload makes it leave the step out.

    Raises InvalidArgument, Unsupported; Mismatch, on all ranks, if their shards or arguments differ.
    """
    units = units_of(model, "compress_reduce_scatter")
    options = GroupOptions(
        codec=chosen_codec(codec, "compress_reduce_scatter(model, codec)", codec_for),
        min_compress_bytes=min_compress_bytes,
        compress_vectors=compress_vectors,
        codec_for=dict(codec_for or {}),
        seed=seed,
        scaler=LossScale(scaler, "compress_reduce_scatter(model, codec, scaler=scaler)"),
    )
    options.check([name for unit in units for name in unit.shapes])
    check_without_states(options)
    shared = [unit for unit in units if unit.shapes and unit.shard_group is not None]
    side = side_for({unit.name: unit.device for unit in shared})
    state = ReduceScatterState(side)
    arenas = Arenas(side, 0, least=1)
    for unit in shared:
        scatter = _CompressedReduceScatter(unit, options, state, side, arenas)
        state.replaced.append((unit, unit.scatter_by(scatter)))
    if options.compresses and shared:
        say_once(dist.get_rank(), len(state.exact_tensors), sum(len(unit.shapes) for unit in shared))
    return state


class ReduceScatterState(CollectiveState):
    """The byte counter and the steps of one model's reduce-scatters."""

    def __init__(self, side: Side) -> None:
        super().__init__(side, Unit.scatter_by)


class _CompressedReduceScatter(ReduceScatter):
    """The reduce-scatter of one unit. FSDP2 calls it in backward, unit by unit, in one order on all ranks."""

    def __init__(
        self, unit: Unit, options: GroupOptions, state: ReduceScatterState, side: Side, arenas: Arenas
    ) -> None:
        """`arenas`: of all units, which travel one after the other."""
        self._unit = unit
        self._state = state
        self._side = side
        assert unit.shard_group is not None
        check_units_alike("compress_reduce_scatter()", unit, unit.shapes, options, side)
        self._world, self._rank = unit.shard_group.size(), unit.shard_group.rank()
        self._seed = options.seed + (self._rank * 4 << 32)
        self._scaling: LossScale = options.scaler
        codecs = {
            name: options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions)
            for name, shape in unit.shapes.items()
        }
        #: Each tensor's columns in the input, which has one row per rank.
        self._columns: list[slice] = []
        self._exact: list[slice] = []
        compressed = []
        #: The elements of a shard that travel as they are although there is a codec for them.
        self._left_out = 0
        start = 0
        for name, shape in unit.shapes.items():
            columns = slice(start, start + shape.count)
            start += shape.count
            codec = codecs[name]
            if codec is None:
                self._exact.append(columns)
            else:
                self._columns.append(columns)
                compressed.append((name, shape.count, codec))
            if codec is None or payload_room(codec, shape.count, shape.dtype)[0]:
                state.exact_tensors += (name,)
                self._left_out += shape.count if options.names_codec(name) else 0
        self._compressed, self._arenas = compressed, arenas
        self._slots_of: dict[torch.dtype, Slots] = {}
        self._states = side.table()  # stays empty: these codecs have no states
        self._changes = side.changes(False)

    def __del__(self) -> None:
        self._side.ended()

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """See torch's Comm."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        """See torch's ReduceScatter."""
        given, output = as_reals(input_tensor), as_reals(output_tensor)
        self._unit.check_elements(output)
        if output_tensor.device != self._side.device:
            raise InvalidArgument(
                f"{self._unit.name} has gradients on {output_tensor.device} now, and was on {self._side.device}: call "
                "compress_reduce_scatter() when the model is where it is trained"
            )
        self._state.raise_error()
        if group.size() != self._world:
            raise Mismatch(f"{self._unit.name} is shared by {group.size()} ranks now, and was by {self._world}")
        count_sent((self._world - 1) * self._left_out * given.element_size())
        if not self._columns:
            return _reduce_scatter(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
        with self._side.at_once():
            self._reduce(output, given.view(self._world, -1), group, op)
        self._unit.steps += 1
        return None

    def _reduce(self, output: torch.Tensor, rows: torch.Tensor, group: Any, op: Any) -> None:
        """On a GPU all of it is on the stream on which FSDP2 calls this."""
        factor, slots = self._factor(op), self._slots(rows.dtype)
        self._changes.nan_if_refused = self._scaling.leaves_steps_out
        arena, step = slots.take(self._unit.steps), self._unit.steps
        given = Contribution(self._arrays(rows), self._states, self._seed, step, factor, self._changes)
        slots.run(0, given, arena)
        work = None
        if self._world > 1:
            self._state.sent_bytes += sum(slots.sent(0))
            work = slots.hop(0, arena, group)
        if self._exact:
            exact = torch.cat([rows[:, columns] for columns in self._exact], dim=1)
            sums = torch.empty(exact.shape[1], dtype=exact.dtype, device=exact.device)
            _reduce_scatter(sums, exact.view(-1), op=op, group=group)
            lengths = [columns.stop - columns.start for columns in self._exact]
            for columns, part in zip(self._exact, sums.split(lengths), strict=True):
                output[columns] = part
        if work is not None:
            work.wait()
            slots.run(1, given, arena)
        slots.give_back(arena, self._changes)
        for columns in self._columns:
            output[columns] = rows[self._rank, columns]

    def _slots(self, dtype: torch.dtype) -> Slots:
        """For gradients of a type. One block has all shards for one rank."""
        if dtype not in self._slots_of:
            self._slots_of[dtype] = shard_slots(
                self._compressed,
                dtype,
                Ranks(self._rank, self._world),
                side=self._side,
                arenas=self._arenas,
            )
        return self._slots_of[dtype]

    def _arrays(self, rows: torch.Tensor) -> SlotTensors:
        """The shards of rank 0, then of rank 1, and so on."""
        values = [self._side.values(row[columns]) for row in rows.detach() for columns in self._columns]
        return self._side.tensors(values)

    def _factor(self, op: Any) -> float:
        if op == dist.ReduceOp.AVG:
            return 1 / self._world
        if op == dist.ReduceOp.SUM:
            return 1.0
        raise InvalidArgument(
            f"{self._unit.name} sums with {op}, because of set_gradient_divide_factor(): call "
            "set_force_sum_reduction_for_comms(True), too, so that FSDP2 divides after the sum"
        )
