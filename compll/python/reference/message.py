# SPDX-License-Identifier: Apache-2.0
"""The bytes of a message: concat writes them, extract reads them.

The parts follow each other without gaps; each begins at a byte. Numbers are little endian; int32 is two's complement,
float IEEE 754 of 32 bits, uint16 two bytes. A scalar of another integer type is one byte, of uint12 two, and a vector
of it is packed: element i of b bits has the bits from i·b mod 8 on (bit 0 is worth 1) of byte i·b div 8, and goes on
with the lowest bits of the next byte; unused bits of the last byte are 0. int4 and int8 are two's complement of their
width. Five trits are a byte, the first one its digit of least weight in base 3; digits behind the last trit are 0.
float16 is IEEE 754 of 16 bits. Lengths and types are not in a message unless the program writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.ir.expressions import FLOAT16, TRIT
from hipress.compll.reference.evaluate import Environment, bits, evaluate
from hipress.errors import CorruptPayload

_WIRE: dict[str, Any] = {"uint": "<u2", "int": "<i4", "float": "<f4"}
#: The trits of a byte, and the weight of each.
_TRITS = 5
_WEIGHTS = 3 ** np.arange(_TRITS)


def vector_bytes(element: ir.Scalar, count: int, environment: Environment) -> int:
    """The bytes that a vector of `count` elements takes."""
    return -(-count // _TRITS) if element == TRIT else packed_bytes(count, bits(element, environment))


def packed_bytes(count: int, width: int) -> int:
    """The bytes that `count` elements of `width` bits take."""
    return (count * width + 7) // 8


def pack(values: NDArray[Any], width: int) -> bytes:
    """Elements of 1 to 8 or 12 bits, low bits first."""
    bits = np.asarray(values, np.uint16)[:, None] >> np.arange(width, dtype=np.uint16) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, count: int, width: int) -> NDArray[Any]:
    """The inverse of pack. Raises CorruptPayload if a bit behind the last element is set."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[count * width :].any():
        raise CorruptPayload(f"bits are set beyond element {count - 1}")
    weights = np.left_shift(np.uint16(1), np.arange(width, dtype=np.uint16))
    values: NDArray[Any] = (bits[: count * width].reshape(count, width) * weights).sum(axis=1)
    return np.asarray(values, np.uint16 if width > 8 else np.uint8)


def pack_trits(values: NDArray[Any]) -> bytes:
    """Five elements of 0, 1 or 2 in a byte."""
    digits = np.zeros((-(-len(values) // _TRITS), _TRITS), np.int64)
    digits.reshape(-1)[: len(values)] = values
    return (digits @ _WEIGHTS).astype(np.uint8).tobytes()


def unpack_trits(data: bytes, count: int) -> NDArray[Any]:
    """The inverse of pack_trits. Raises CorruptPayload for bytes that pack_trits never makes."""
    digits = np.frombuffer(data, np.uint8)[:, None].astype(np.int64) // _WEIGHTS % 3
    values: NDArray[Any] = digits.reshape(-1)[:count].astype(np.uint8)
    if pack_trits(values) != data:
        raise CorruptPayload("a byte is no five digits 0, 1 and 2, or a digit is set beyond the last element")
    return values


def _unsigned(values: NDArray[Any], element: ir.Scalar) -> NDArray[Any]:
    """The bits of packed elements; of a negative number, its two's complement."""
    if element.wide:
        return values.astype("<u2")
    kept = (1 << element.bits) - 1 if element.kind == "int" else 255
    return (values & kept).astype(np.uint8)


def _signed(codes: NDArray[Any], element: ir.Scalar) -> NDArray[Any]:
    """The inverse of _unsigned."""
    if element.kind == "uint":
        return codes
    half = np.int32(1 << (element.bits - 1))
    numbers: NDArray[np.int32] = (codes.astype(np.int32) ^ half) - half
    return numbers


def _wire(element: ir.Scalar) -> str:
    """The NumPy type of a number in a message."""
    return "<f2" if element == FLOAT16 else str(_WIRE[element.kind])


def concat(items: Iterable[ir.Vec | ir.Expr], types: dict[str, ir.Vector], environment: Environment) -> bytes:
    """The message. `types` has the vectors that the program defines; the others are the gradient and states."""
    parts = []
    for item in items:
        if isinstance(item, ir.Vec):
            element = types[item.vector].element if item.vector in types else ir.FLOAT
            values = environment.vectors[item.vector]
            if element == TRIT:
                parts.append(pack_trits(values))
                continue
            if element.packed:
                parts.append(pack(_unsigned(values, element), bits(element, environment)))
                continue
        else:
            element, values = item.type, np.asarray(evaluate(item, environment))
            if element.packed:
                parts.append(_unsigned(values, element).tobytes())
                continue
        parts.append(np.asarray(values).astype(_wire(element)).tobytes())
    return b"".join(parts)


def extract(fields: Iterable[ir.Field], message: bytes, environment: Environment) -> None:
    """Reads the fields into the environment. Raises CorruptPayload unless they fill the message exactly."""
    at = 0

    def read(size: int, name: str) -> bytes:
        nonlocal at
        if size > len(message) - at:
            raise CorruptPayload(f"'{name}' needs {size} bytes at {at}, the message has {len(message)}")
        at += size
        return message[at - size : at]

    for field in fields:
        element = field.type.element if isinstance(field.type, ir.Vector) else field.type
        width = bits(element, environment)
        if not isinstance(field.type, ir.Vector):
            raw = read(element.message_bytes, field.name)
            if not element.packed:
                environment.scalars[field.name] = np.frombuffer(raw, _wire(element))[0]
                continue
            code = np.frombuffer(raw, "<u2" if element.wide else np.uint8)
            if element == TRIT and code[0] > 2:
                raise CorruptPayload(f"'{field.name}' is {code[0]}, a trit is 0, 1 or 2")
            if code[0] >> width:
                raise CorruptPayload(f"'{field.name}' is {code[0]}, it has {width} bits")
            environment.scalars[field.name] = _signed(code, element)[0]
            continue
        count = _count(field, width, len(message) - at, environment)
        raw = read(vector_bytes(element, count, environment), field.name)
        if element == TRIT:
            environment.vectors[field.name] = unpack_trits(raw, count)
        elif element.packed:
            environment.vectors[field.name] = _signed(unpack(raw, count, width), element)
        else:
            environment.vectors[field.name] = np.frombuffer(raw, _wire(element)).astype(_wire(element)[1:])
    if at != len(message):
        raise CorruptPayload(f"the message has {len(message)} bytes, its fields take {at}")


def _count(field: ir.Field, width: int, left: int, environment: Environment) -> int:
    if field.length is not None:
        count = int(evaluate(field.length, environment))
        if count < 0:
            raise CorruptPayload(f"'{field.name}' would have {count} elements")
        return count
    if left * 8 % width:
        raise CorruptPayload(f"{left} bytes are left for '{field.name}', which has {width // 8} bytes an element")
    return left * 8 // width
