# SPDX-License-Identifier: Apache-2.0
"""Where the messages of several tensors lie in the buffers of a group's collectives.

A tensor is cut into partitions as the engine cuts it, and each partition has an owner, which averages it. A partition
has a slot of fixed size: a header of the wire format and room for the codec's largest payload, so ranks never exchange
sizes. A rank's slots for one owner lie behind each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.torch.process_groups.ranks import Ranks

if TYPE_CHECKING:
    from hipress._core import Codec

_core = load_core()  # once: three threads use it
HEADER_BYTES = 32
#: Partitions begin at multiples of 1,024 elements.
_MOST_IN_PARTITION = _core.MOST_ENCODED // 1024 * 1024


@dataclass(frozen=True)
class Partition:
    """A part of a tensor that travels as one message."""

    tensor: int
    """Number of the tensor in its list."""
    index: int
    first: int
    """Element of the tensor."""
    count: int
    owner: int
    """See Ranks."""
    payload_bytes: int
    """At most."""
    raw: bool
    """The codec would not shrink it: the slot has its values as they are."""


@dataclass(frozen=True)
class Compressed:
    """A tensor, or a piece of one, that travels compressed."""

    name: str
    count: int
    codec: Codec
    first: int = 0
    """If it is a piece of a tensor: its first element there."""
    dtype: torch.dtype = torch.float32
    """Of the values that the rank gives."""
    topology: str = ""
    """The plan's for this tensor; empty: as the others."""
    pieces: int = 0
    """The plan's number of partitions; 0: by size."""


def payload_room(codec: Codec, count: int, dtype: torch.dtype) -> tuple[bool, int]:
    """Whether so many values travel raw, because the codec would not shrink them; and the bytes of their payload.

    Raises InvalidArgument for more values than a codec encodes at a time.
    """
    if count > _core.MOST_ENCODED:
        raise InvalidArgument(
            f"codec {codec.name} encodes {_core.MOST_ENCODED} elements at most at a time, and a shard of this rank has "
            f"{count}: shard over more ranks, or give the tensor codec 'none' (codec_for)"
        )
    bound, raw = codec.max_encoded_bytes(count), dtype.itemsize * count
    return bound >= raw, min(bound, raw)


class Layout:
    """The partitions of some tensors, as the engine cuts them."""

    def __init__(self, tensors: Sequence[Compressed], ranks: Ranks) -> None:
        self.tensors = tensors
        self.partitions: list[Partition] = []
        for number, tensor in enumerate(tensors):
            own = ranks.by(tensor.topology)
            pieces = tensor.pieces or _core.default_partitions(tensor.count, 4, ranks.world)
            pieces = max(pieces, -(-tensor.count // _MOST_IN_PARTITION))
            start = _core.first_aggregator(tensor.name, ranks.world)
            for index, (first, count) in enumerate(_core.split_elements(tensor.count, pieces)):
                raw, payload = payload_room(tensor.codec, count, tensor.dtype)
                owner = own.owner(start + index)
                self.partitions.append(Partition(number, index, first, count, owner, payload, raw))
