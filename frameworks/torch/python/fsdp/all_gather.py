# SPDX-License-Identifier: Apache-2.0
"""FSDP2's all-gather of parameters, compressed: each rank encodes its shard once and sends it to all others. All ranks,
also the shard's own one, compute with the decoded values; the optimizer's shards keep their precision.

ZeRO++'s qwZ (arXiv 2306.10209, section 3.1) quantises the weights of the forward pass so; here both passes' weights
travel encoded, and both have the same bits.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, Mismatch
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.raw_tensors import count_sent, say_once
from hipress.torch.fsdp.collective_state import CollectiveState, check_units_alike, check_without_states
from hipress.torch.fsdp.gathered_shards import GatheredShards
from hipress.torch.fsdp.units import Unit, units_of
from hipress.torch.fsdp.weight_versions import WeightVersions
from hipress.torch.installed.private_names import AllGather
from hipress.torch.process_groups.arenas import Arenas
from hipress.torch.process_groups.dtypes import CORE_NAMES
from hipress.torch.process_groups.layout import payload_room
from hipress.torch.process_groups.options import GroupOptions, chosen_codec
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.side import Contribution, HostSide, Side
from hipress.torch.process_groups.sides import side_for
from hipress.torch.reals import as_reals

#: torch calls it all_gather_into_tensor up to version 2.12.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
#: Random rounding of a rank's weights and of its gradients draws different numbers: see encodeContext() of the core.
_OF_WEIGHTS = 3


def compress_all_gather(
    model: torch.nn.Module,
    codec: str | None = None,
    *,
    min_compress_bytes: int = MIN_COMPRESS_BYTES,
    compress_vectors: bool = False,
    codec_for: Mapping[str, str] | None = None,
    seed: int = 0,
) -> AllGatherState:
    """Compresses the parameters that the ranks which share the model gather before forward and backward passes; returns
    a state that counts the sent bytes.

    All ranks call it after `fully_shard` and before the first forward pass, with the same arguments. Forward and
    backward passes compute with the decoded values, the same on all ranks; the shards that the optimizer updates and
    `state_dict()` saves stay exact. A shard with a value that is not finite becomes NaN on all ranks.

    Arguments:
        model: sharded by `fully_shard`, on the CPU or an NVIDIA GPU, with float32, bfloat16 or float16 parameters or
            such a `param_dtype`. Parameters of other types, and those whose type gathers values of its own
            (`fsdp_pre_all_gather`), travel as they are.
        codec: a codec without error feedback that keeps every weight, such as "int8" or "fp8_e4m3".
        min_compress_bytes: smaller shards travel raw.
        compress_vectors: as of `hipress.torch.ddp.compress()`.
        codec_for: as of `hipress.torch.ddp.compress()`.
        seed: as of `hipress.torch.ddp.compress()`. Weights are rounded anew when an optimizer of torch or an operation
            on a parameter has changed them, so that the passes of a step have the same values.

    Raises InvalidArgument, Unsupported; Mismatch, on all ranks, if their shards or arguments differ.
    """
    units = units_of(model, "compress_all_gather")
    options = GroupOptions(
        codec=chosen_codec(codec, "compress_all_gather(model, codec)", codec_for),
        min_compress_bytes=min_compress_bytes,
        compress_vectors=compress_vectors,
        codec_for=dict(codec_for or {}),
        seed=seed,
    )
    options.check([name for unit in units for name in unit.gathered])
    check_without_states(options)
    shared = [unit for unit in units if unit.gathered and unit.shard_group is not None]
    side = side_for({unit.name: unit.device for unit in shared})
    state = AllGatherState(side, WeightVersions(shared))
    # The processor may have one gather of each unit on its way; a GPU has one after the other on its streams.
    arenas = Arenas(side, 0, least=len(shared) if isinstance(side, HostSide) else 1)
    for unit in shared:
        gather = _CompressedAllGather(unit, options, state, side, arenas)
        state.gathers.append(gather)
        state.replaced.append((unit, unit.gather_by(gather)))
    if options.compresses and shared:
        say_once(dist.get_rank(), len(state.exact_tensors), sum(len(unit.gathered) for unit in shared))
    return state


class AllGatherState(CollectiveState):
    """The byte counters and the steps of one model's all-gathers; `sent_bytes` is the sum of both counters."""

    def __init__(self, side: Side, versions: WeightVersions) -> None:
        super().__init__(side, Unit.gather_by)
        self.versions = versions
        #: Bytes of encoded shards that this rank has sent for forward passes, or for `unshard()`.
        self.sent_in_forward = 0
        #: The same for backward passes. A unit with `reshard_after_forward=False` sends none.
        self.sent_in_backward = 0
        self.gathers: list[_CompressedAllGather] = []

    def count(self, sent: int, in_backward: bool) -> None:
        """This rank sends so many bytes of encoded shards."""
        self.sent_bytes += sent
        if in_backward:
            self.sent_in_backward += sent
        else:
            self.sent_in_forward += sent

    def state_dict(self) -> dict[str, Any]:
        """See CollectiveState. A unit's steps are the changes of its weights."""
        for gather in self.gathers:
            gather.step()
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See CollectiveState."""
        super().load_state_dict(state)
        for gather in self.gathers:
            gather.begin()

    def close(self) -> None:
        """See CollectiveState."""
        self.gathers = []
        self.versions.close()
        super().close()


class _CompressedAllGather(AllGather):
    """The all-gather of one unit. FSDP2 calls it before a pass needs the unit, in one order on all ranks."""

    def __init__(self, unit: Unit, options: GroupOptions, state: AllGatherState, side: Side, arenas: Arenas) -> None:
        """`arenas`: of all units."""
        self._unit, self._state, self._side, self._arenas = unit, state, side, arenas
        assert unit.shard_group is not None
        check_units_alike("compress_all_gather()", unit, unit.gathered, options, side)
        self._ranks = Ranks(unit.shard_group.rank(), unit.shard_group.size())
        self._seed = options.seed + (self._ranks.rank * 4 + _OF_WEIGHTS << 32)
        self._elements = sum(shape.count for shape in unit.gathered.values())
        #: Name, elements and codec of each shard, in the order of FSDP2's input.
        self._shards = []
        #: The elements of a shard that travel as they are although there is a codec for them.
        self._left_out = 0
        for name, shape in unit.gathered.items():
            codec = options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions)
            if unit.gathers_bytes or shape.dtype not in CORE_NAMES:
                codec = None
            _check_factor(name, codec)
            self._shards.append((name, shape.count, codec))
            if codec is None or payload_room(codec, shape.count, shape.dtype)[0]:
                state.exact_tensors += (name,)
                self._left_out += shape.count if options.names_codec(name) else 0
        self._exact = all(codec is None for _, _, codec in self._shards)
        self._messages: dict[torch.dtype, GatheredShards] = {}
        self._states = side.table()  # stays empty: these codecs have no states
        self._changes = side.changes(False)
        self._changes.nan_if_refused = True  # zeros would be weights like others
        self._version: Hashable = None

    def __del__(self) -> None:
        self._side.ended()

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """See torch's Comm."""
        return torch.empty(*size, dtype=dtype, device=device)

    def step(self) -> int:
        """The number of the weights' change, on which random rounding depends. Ranks need not have the same."""
        version = self._state.versions.of(self._unit)
        if self._version is not None and version != self._version:
            self._unit.steps += 1
        self._version = version
        return self._unit.steps

    def begin(self) -> None:
        """The weights are those of the unit's number of steps."""
        self._version = None

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> Any:
        """See torch's AllGather."""
        self._state.raise_error()
        given = as_reals(input_tensor)
        # Over a group of reshard_after_forward's own travel parts of decoded weights, and again the same bits.
        if self._exact or group is not self._unit.shard_group or given.dtype not in CORE_NAMES:
            count_sent((self._ranks.world - 1) * self._left_out * given.element_size())
            return _all_gather(output_tensor, input_tensor, group=group, async_op=async_op)
        self._check(output_tensor, given)
        messages = self._of_type(given.dtype)
        count_sent((self._ranks.world - 1) * self._left_out * given.element_size())
        self._state.count(messages.sent, self._unit.in_backward)
        with self._side.at_once():
            decoding = self._start(messages, as_reals(output_tensor), given, group)
            if isinstance(self._side, HostSide):
                return _Decoding(decoding)  # FSDP2 waits for it when the pass comes to the unit
            decoding()  # on the stream on which FSDP2 calls this, and without a wait of the processor
        return None

    def _check(self, output: torch.Tensor, given: torch.Tensor) -> None:
        if output.device != self._side.device:
            raise InvalidArgument(
                f"{self._unit.name} has parameters on {output.device} now, and was on {self._side.device}: call "
                "compress_all_gather() when the model is where it is trained"
            )
        if given.numel() != self._elements:
            raise Mismatch(
                f"{self._unit.name} gathers {given.numel()} elements of this rank's shards now, and had "
                f"{self._elements}: call compress_all_gather() when the model has its final parameters"
            )

    def _start(
        self, messages: GatheredShards, output: torch.Tensor, given: torch.Tensor, group: Any
    ) -> Callable[[], None]:
        """Encodes and sends this rank's shards. Returns what receives and decodes all ranks' shards into the output,
        of which `given` may be a part."""
        step = self.step()
        arena = messages.take(step)
        with _dropping(messages, arena):
            messages.encode(self._contribution(given.view(1, -1), step), arena)
            work = messages.gather(arena, group)

        def decode() -> None:
            with _dropping(messages, arena):
                work.wait()
                messages.decode(self._contribution(output.view(self._ranks.world, -1), step), arena)

        return decode

    def _contribution(self, rows: torch.Tensor, step: int) -> Contribution:
        """One row for each rank."""
        counts = [count for _, count, _ in self._shards]
        values = [self._side.values(shard) for row in rows.detach() for shard in row.split(counts)]
        return Contribution(self._side.tensors(values), self._states, self._seed, step, 1.0, self._changes)

    def _of_type(self, dtype: torch.dtype) -> GatheredShards:
        if dtype not in self._messages:
            self._messages[dtype] = GatheredShards(
                self._shards, dtype, self._ranks, side=self._side, arenas=self._arenas
            )
        return self._messages[dtype]


class _Decoding(dist.Work):
    """A gather on its way, for the processor: the wait decodes."""

    def __init__(self, decode: Callable[[], None]) -> None:
        super().__init__()
        self._decode: Callable[[], None] | None = decode

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """See torch's Work; the group's own timeout holds."""
        decode, self._decode = self._decode, None
        if decode is not None:
            decode()
        return True


@contextmanager
def _dropping(messages: GatheredShards, arena: torch.Tensor) -> Iterator[None]:
    """If the work within fails, no other gather gets the arena, which a collective may still write."""
    try:
        yield
    except BaseException:
        messages.drop(arena)
        raise


def _check_factor(name: str, codec: Any) -> None:
    if codec is not None and codec.gradient_factor != 1:
        raise InvalidArgument(
            f"'{name}' has a codec with gradient_factor={codec.gradient_factor:g}, which would multiply its weights: "
            "leave gradient_factor out"
        )
