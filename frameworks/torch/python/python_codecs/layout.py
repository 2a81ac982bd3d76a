# SPDX-License-Identifier: Apache-2.0
"""The message of a codec in Python: how many tensors it has, the type and shape of each, then their bytes.

uint8    number of tensors
each:    uint8 type (its place in TYPES), uint8 dimensions, uint32 of each dimension, little-endian
each:    its elements, in rows, without gaps
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeAlias

import torch

from hipress.errors import CorruptPayload, InvalidArgument

#: The types that travel. A type's place is its number on the wire, so new ones come last.
TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
_MOST = 255

#: The type and the shape of each tensor of a message.
Layout: TypeAlias = "tuple[tuple[torch.dtype, tuple[int, ...]], ...]"


def layout_of(tensors: Sequence[torch.Tensor]) -> Layout:
    """Raises InvalidArgument for tensors that cannot travel."""
    if len(tensors) > _MOST:
        raise InvalidArgument(f"encode returned {len(tensors)} tensors; a message has {_MOST} at most")
    for each in tensors:
        if each.dtype not in TYPES:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
            raise InvalidArgument(f"encode returned a tensor of {each.dtype}; the types that travel are {names}")
    return tuple((each.dtype, tuple(each.shape)) for each in tensors)


def head_of(layout: Layout) -> bytes:
    """The bytes of a message before the elements."""
    head = [struct.pack("<B", len(layout))]
    for dtype, shape in layout:
        head.append(struct.pack(f"<BB{len(shape)}I", TYPES.index(dtype), len(shape), *shape))
    return b"".join(head)


def bytes_of(layout: Layout) -> int:
    """The size of a message."""
    return len(head_of(layout)) + sum(dtype.itemsize * math.prod(shape) for dtype, shape in layout)


def read_head(message: bytes) -> Layout:
    """The layout in a message, or in as many bytes of it as hold the layout. Raises CorruptPayload."""
    try:
        (number,) = struct.unpack_from("<B", message)
        place, layout = 1, []
        for _ in range(number):
            dtype, dimensions = struct.unpack_from("<BB", message, place)
            shape = struct.unpack_from(f"<{dimensions}I", message, place + 2)
            layout.append((TYPES[dtype], shape))
            place += 2 + 4 * dimensions
    except (struct.error, IndexError):
        raise CorruptPayload(f"{len(message)} bytes that begin with no list of tensors") from None
    return tuple(layout)


def shapes(layout: Layout) -> str:
    """For messages: "int8[1000], float32[]"."""
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for dtype, shape in layout) or "no tensor"


def pack(tensors: Sequence[torch.Tensor], head: torch.Tensor, message: torch.Tensor) -> None:
    """Writes a message. `head`: its head_of(), on the device; `message`: as many bytes as bytes_of() says."""
    message[: len(head)] = head
    place = len(head)
    for each in tensors:
        elements = each.contiguous().reshape(-1).view(torch.uint8)
        message[place : place + len(elements)] = elements
        place += len(elements)


def unpack(message: torch.Tensor, layout: Layout) -> tuple[torch.Tensor, ...]:
    """Copies the tensors out of a message of as many bytes as bytes_of() says."""
    place, tensors = len(head_of(layout)), []
    for dtype, shape in layout:
        size = dtype.itemsize * math.prod(shape)
        tensors.append(message[place : place + size].clone().view(dtype).reshape(shape))
        place += size
    return tuple(tensors)
