# SPDX-License-Identifier: Apache-2.0
"""One message in its slot: a header of the wire format, then the payload (docs/wire-format.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipress._library import load_core
from hipress.errors import CorruptPayload
from hipress.torch.process_groups.layout import HEADER_BYTES, Compressed, Partition

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_core = load_core()  # once: three threads use it
_DTYPE = "float32"  # whatever the gradient has: codecs take float32


def payload_room(slot: Bytes) -> Bytes:
    """Where the payload goes."""
    return slot[HEADER_BYTES:]


def seal(slot: Bytes, tensor: Compressed, partition: Partition, payload_bytes: int) -> None:
    """Writes the header of a payload that is in its place."""
    flags = _core.FLAG_RAW if partition.raw else 0
    header = _core.pack_header(tensor.codec.id, _DTYPE, partition.count, payload_bytes, flags)
    slot[:HEADER_BYTES] = np.frombuffer(header, np.uint8)


def write_raw(slot: Bytes, tensor: Compressed, partition: Partition, values: Floats) -> None:
    """The values as they are."""
    payload_room(slot)[:] = values.view(np.uint8)
    seal(slot, tensor, partition, partition.payload_bytes)


def read(slot: Bytes, tensor: Compressed, partition: Partition, sender: int, output: Floats, *, add: bool) -> None:
    """Decodes the message into `output`, or adds it. Raises CorruptPayload, with tensor, partition and sender."""
    try:
        header = _core.unpack_header(
            slot[:HEADER_BYTES].tobytes(), tensor.codec.id, _DTYPE, partition.count, partition.payload_bytes
        )
        payload = slot[HEADER_BYTES : HEADER_BYTES + header.payload_bytes]
        if header.flags & _core.FLAG_RAW:
            values = payload.view(np.float32)
            if add:
                output += values
            else:
                output[:] = values
        else:
            tensor.codec.decode_into(payload, output, accumulate=add)
    except CorruptPayload as error:
        raise CorruptPayload(
            f"tensor '{tensor.name}', partition {partition.index}, from rank {sender} of the group: {error}"
        ) from None
