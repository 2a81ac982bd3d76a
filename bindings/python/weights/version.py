# SPDX-License-Identifier: Apache-2.0
"""One version of a stream as bytes: docs/wire-format.md, "Versions of weights"."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from hipress._library import load_core
from hipress.errors import CorruptPayload, Unsupported

MAGIC = b"HPWEIGHT"
FORMAT = 1
#: Magic, format, CRC-32C of the header, bytes of the header, bytes of the payload.
_PREFIX = struct.Struct("<8sIIQQ")
#: The largest valid header (bytes). 100,000 tensors need a quarter of it.
_LONGEST_HEADER = 64 << 20

Buffer: TypeAlias = bytes | memoryview
Encoding = Literal["same", "changes", "raw"]


class Entry(BaseModel):
    """One tensor of a version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    dtype: str
    shape: tuple[NonNegativeInt, ...]
    element_bytes: int = Field(ge=1, le=16)
    encoding: Encoding
    bytes: NonNegativeInt
    """Number of bytes of its part of the payload."""
    crc: NonNegativeInt
    """CRC-32C of its part of the payload."""
    after: NonNegativeInt
    """CRC-32C of the tensor's bytes in this version."""

    @property
    def kind(self) -> str:
        """See Weight.kind."""
        return f"{self.dtype}{list(self.shape)}"

    @property
    def tensor_bytes(self) -> int:
        """Number of bytes of the whole tensor."""
        elements = 1
        for extent in self.shape:
            elements *= extent
        return elements * self.element_bytes


class Header(BaseModel):
    """The header of a version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = Field(ge=1)
    base: int | None = Field(default=None, ge=1)
    """The version to which the changes apply; None: this version is an anchor."""
    tensors: tuple[Entry, ...]


@dataclass(frozen=True)
class Version:
    """A version that was read and checked."""

    header: Header
    payload: memoryview

    @property
    def is_anchor(self) -> bool:
        """Whether it has all values of all tensors."""
        return self.header.base is None

    def parts(self) -> Iterator[tuple[Entry, memoryview]]:
        """Each tensor's part of the payload."""
        at = 0
        for entry in self.header.tensors:
            yield entry, self.payload[at : at + entry.bytes]
            at += entry.bytes


def written(header: Header, payload: Sequence[Buffer]) -> Iterator[Buffer]:
    """The parts of a version's bytes, in their order."""
    text = header.model_dump_json(exclude_none=True).encode()
    bytes_of_payload = sum(entry.bytes for entry in header.tensors)
    yield _PREFIX.pack(MAGIC, FORMAT, load_core().crc32c(text), len(text), bytes_of_payload)
    yield text
    yield from payload


def read(data: bytes, where: str) -> Version:
    """The version in `data`. It checks every checksum, and that changes fit their tensors.

    Raises CorruptPayload with `where`; Unsupported for the format of a newer version of HiPress.
    """
    core = load_core()
    if len(data) < _PREFIX.size or not data.startswith(MAGIC):
        raise CorruptPayload(f"{where} is no version of weights: it does not begin as one")
    _, form, crc, header_bytes, payload_bytes = _PREFIX.unpack_from(data)
    if form != FORMAT:
        raise Unsupported(f"{where} has format {form}; this HiPress reads format {FORMAT}: install a newer one")
    if header_bytes > _LONGEST_HEADER or len(data) != _PREFIX.size + header_bytes + payload_bytes:
        raise CorruptPayload(
            f"{where} is cut off or too long: it has {len(data)} bytes, and says that it has "
            f"{_PREFIX.size + header_bytes + payload_bytes}"
        )
    view = memoryview(data)
    text = view[_PREFIX.size : _PREFIX.size + header_bytes]
    if core.crc32c(text) != crc:
        raise CorruptPayload(f"{where}: the header was altered, its checksum is wrong")
    try:
        header = Header.model_validate_json(bytes(text))
    except ValidationError as error:
        raise CorruptPayload(f"{where}: the header is wrong: {error.errors()[0]['msg']}") from None
    version = Version(header, view[_PREFIX.size + header_bytes :])
    if sum(entry.bytes for entry in header.tensors) != payload_bytes:
        raise CorruptPayload(f"{where}: the tensors' parts are not as long as the payload")
    for entry, part in version.parts():
        _check(entry, part, version.is_anchor, f"{where}: weight '{entry.name}'")
    return version


def _check(entry: Entry, part: memoryview, anchor: bool, where: str) -> None:
    core = load_core()
    if core.crc32c(part) != entry.crc:
        raise CorruptPayload(f"{where} was altered, its checksum is wrong")
    if anchor and entry.encoding != "raw":
        raise CorruptPayload(f"{where} is not whole in a version that is based on none")
    if entry.bytes != {"same": 0, "raw": entry.tensor_bytes}.get(entry.encoding, entry.bytes):
        raise CorruptPayload(f"{where} has {entry.bytes} bytes for a tensor of {entry.tensor_bytes}")
    if entry.encoding == "changes":
        try:
            core.check_changes(part, entry.tensor_bytes, entry.element_bytes)
        except ValueError as error:
            raise CorruptPayload(f"{where}: {error}") from None
        except CorruptPayload as error:
            raise CorruptPayload(f"{where}: {error}") from None
