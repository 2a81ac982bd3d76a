# SPDX-License-Identifier: Apache-2.0
"""Encodes plain values as JSON, exactly and with their types, so that ranks exchange them without pickle.

Plain values are None, bool, int, float (to the last bit), str, bytes, list, tuple, dict, and NumPy's numbers. An
adapter passes a function that encodes its other values, such as tensors, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from hipress.errors import CorruptPayload, Unsupported

#: Encodes a value that is not plain, found at a place, as JSON; None: it cannot.
EncodeOther = Callable[[Any, str], Any]
#: Undoes EncodeOther.
DecodeOther = Callable[[Any], Any]


def to_json(value: Any, other: EncodeOther = lambda value, where: None, where: str = "") -> bytes:
    """`value` as UTF-8 text. Errors call it `where`, with keys and indices.

    Raises Unsupported, with the first value that is neither plain nor encoded by `other`.
    """
    return json.dumps(_encoded(value, other, where)).encode()


def from_json(text: bytes, other: DecodeOther = lambda encoded: encoded) -> Any:
    """The value that to_json() has encoded. Raises CorruptPayload for a text that to_json() cannot have written."""
    try:
        return _decoded(json.loads(text), other)
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise CorruptPayload(f"these bytes are no plain values: {error}") from error


def _encoded(value: Any, other: EncodeOther, where: str) -> Any:
    # The exact type counts: a derived class, such as an enumeration or a named tuple, may mean more than its base.
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return ["float", value.hex()]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind in (list, tuple):
        return [kind.__name__, [_encoded(each, other, f"{where}[{index}]") for index, each in enumerate(value)]]
    if kind is dict:
        return [
            "dict",
            [
                [_encoded(key, other, f"a key of {where}"), _encoded(each, other, f"{where}[{key!r}]")]
                for key, each in value.items()
            ],
        ]
    if isinstance(value, np.number | np.bool_) and not isinstance(value, np.longdouble | np.clongdouble):
        return ["numpy", value.dtype.name, value.tobytes().hex()]
    encoded = other(value, where)
    if encoded is None:
        raise Unsupported(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which is neither a tensor nor a plain value (None, "
            "bool, int, float, str, bytes, list, tuple, dict, a number of NumPy)"
        )
    return ["other", encoded]


def _decoded(encoded: Any, other: DecodeOther) -> Any:
    if not isinstance(encoded, list):
        return encoded
    tag, content = encoded[0], encoded[1]
    if tag == "float":
        return float.fromhex(content)
    if tag == "bytes":
        return bytes.fromhex(content)
    if tag == "list":
        return [_decoded(each, other) for each in content]
    if tag == "tuple":
        return tuple(_decoded(each, other) for each in content)
    if tag == "dict":
        return {_decoded(key, other): _decoded(each, other) for key, each in content}
    if tag == "numpy":
        return np.frombuffer(bytes.fromhex(encoded[2]), np.dtype(content))[0]
    if tag == "other":
        return other(content)
    raise ValueError(f"there are no values of type '{tag}'")
