# SPDX-License-Identifier: Apache-2.0
"""Codec states with one value for each block of elements, in a checkpoint (codec_states.py): "weight/limit" has the
values, and "weight/limit:block" says how many elements share one. A state without this entry has a value for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.errors import InvalidArgument

#: Partitions of tensors begin at multiples of this number of elements, so blocks of states divide it.
_ALIGNMENT = 1024


def block_key(key: str) -> str:
    """The key of the entry that says how many elements share a value of the state `key`."""
    return f"{key}:block"


def block_of(states: Mapping[str, NDArray[Any]], key: str) -> int:
    """How many elements share a value of the state `key`, such as "weight/limit"."""
    found = states.get(block_key(key))
    return 1 if found is None else int(found[0])


def set_block(states: dict[str, NDArray[Any]], key: str, block: int) -> None:
    """Adds the entry, if several elements share a value."""
    if block != 1:
        states[block_key(key)] = np.array([block], np.int64)


def length_of(count: int, block: int) -> int:
    """The number of values for `count` elements."""
    return -(-count // block)


def values_of(elements: slice, block: int) -> slice:
    """The values for a range of elements, which begins with a block."""
    return slice(elements.start // block, length_of(elements.stop, block))


def check_block(states: Mapping[str, NDArray[Any]], key: str, kept: int | None) -> None:
    """Raises InvalidArgument if the entry of the state `key` is no size of a block, or is not the codec's.

    `kept`: how many elements share a value of the codec's state of this name; None: it has no such state.
    """
    found = states.get(block_key(key))
    if found is not None:
        fits = found.shape == (1,) and found.dtype.kind in "iu"
        if not fits or int(found[0]) < 1 or _ALIGNMENT % int(found[0]) != 0:
            raise InvalidArgument(
                f"'{block_key(key)}' of the codecs' states must be one number that divides {_ALIGNMENT}"
            )
    saved = block_of(states, key)
    if saved != 1 and key.endswith("/residual"):
        raise InvalidArgument(f"'{key}' of the codecs' states must have one value for each element, not {_each(saved)}")
    if kept not in (None, saved):
        raise InvalidArgument(
            f"'{key}' of the codecs' states has one value {_each(saved)}, and the codec here keeps one {_each(kept)}: "
            "load it with the codec that saved it"
        )


def _each(block: int | None) -> str:
    return "for each element" if block == 1 else f"for each {block} elements"
