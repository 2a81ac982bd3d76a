# SPDX-License-Identifier: Apache-2.0
"""Where the messages of several tensors lie in the buffers of a group's collectives.

A tensor is cut into partitions as the engine cuts it, and each partition has an owner, which averages it. A partition
has a slot of fixed size: a header of the wire format and room for the codec's largest payload, so ranks never exchange
sizes. A rank's slots for one owner lie behind each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hipress._library import load_core
from hipress.errors import InvalidArgument

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
    """Rank of the group."""
    payload_bytes: int
    """At most."""
    raw: bool
    """The codec would not shrink it: the slot has its values as they are."""
    offset: int
    """Of the slot, in bytes, among the slots of this owner."""

    @property
    def slot_bytes(self) -> int:
        return HEADER_BYTES + self.payload_bytes


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


class Owners:
    """Who owns the first partition of each tensor, so that all ranks own about as much.

    It is for all tensors of a model: buckets change, and what an owner remembers stays with it.
    """

    def __init__(self, world: int) -> None:
        self._owned = [0] * world
        #: By the tensor's name.
        self.first: dict[str, int] = {}

    def add(self, tensor: Compressed) -> None:
        """The next tensor, in the same order on all ranks."""
        world = len(self._owned)
        self.first[tensor.name] = self._owned.index(min(self._owned))
        partitions = _core.default_partitions(tensor.count, 4, world)
        for index, (_, count) in enumerate(_core.split_elements(tensor.count, partitions)):
            self._owned[(self.first[tensor.name] + index) % world] += count


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


def first_owners(tensors: Sequence[Compressed], world: int) -> dict[str, int]:
    """Owners.first of these tensors."""
    owners = Owners(world)
    for tensor in tensors:
        owners.add(tensor)
    return owners.first


class Layout:
    """The partitions of some tensors, and their slots."""

    def __init__(self, tensors: Sequence[Compressed], world: int, owners: Mapping[str, int] | None) -> None:
        """`owners`: as first_owners() says; None: each tensor is one partition or, if it is huge, a few, and every rank
        has the slots of its own (topology "allgather")."""
        self.tensors = tensors
        self.partitions: list[Partition] = []
        self.bytes_of_owner = [0] * world
        for number, tensor in enumerate(tensors):
            pieces = 1 if owners is None else _core.default_partitions(tensor.count, 4, world)
            pieces = max(pieces, -(-tensor.count // _MOST_IN_PARTITION))
            start = 0 if owners is None else owners[tensor.name]
            for index, (first, count) in enumerate(_core.split_elements(tensor.count, pieces)):
                owner = 0 if owners is None else (start + index) % world
                raw, payload = payload_room(tensor.codec, count, tensor.dtype)
                offset = self.bytes_of_owner[owner]
                self.partitions.append(Partition(number, index, first, count, owner, payload, raw, offset))
                self.bytes_of_owner[owner] += HEADER_BYTES + payload

    def owned_by(self, rank: int) -> list[Partition]:
        """In the order of their slots."""
        return [partition for partition in self.partitions if partition.owner == rank]
