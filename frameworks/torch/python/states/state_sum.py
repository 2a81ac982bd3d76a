# SPDX-License-Identifier: Apache-2.0
"""A checksum in what a rank saves of its own: a mixture of several ranks' states is an error and not a training.

torch.distributed.checkpoint keeps one value of each key, whichever rank wrote it, and loads only keys that the program
has already. hipress.torch.RankStates saves through it as it should be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from hipress._library import load_core
from hipress.errors import InvalidArgument

#: The key of the checksum.
SUM = "sum"


def with_sum(state: Mapping[str, Any], key: str = SUM) -> dict[str, Any]:
    """The state, and its checksum."""
    return {**state, key: sum_of(state)}


def check_sum(state: Mapping[str, Any], key: str = SUM) -> None:
    """Raises InvalidArgument if the state is not as it was saved. States of earlier versions have no checksum."""
    check_against(state.get(key), lambda: sum_of({name: each for name, each in state.items() if name != key}))


def check_against(saved: Any, found: Callable[[], int]) -> None:
    """Raises InvalidArgument if a saved checksum is not the one of what was loaded; None: there is none."""
    if saved is None:
        return
    numbers = np.asarray(saved).reshape(-1)
    if numbers.size != 1 or int(numbers[0]) != found():
        raise InvalidArgument(
            "this state is not as a rank saved it: parts are missing, altered, or of another rank. "
            "torch.distributed.checkpoint keeps one value of each key of all ranks, and loads no key that the program "
            "does not have: give it hipress.torch.RankStates(…), which saves and loads each rank's own"
        )


def sum_of(state: Any) -> int:
    """A CRC-32C of nested mappings, lists, tensors, arrays and plain values."""
    sums: int = load_core().crc32c(np.frombuffer(b"".join(_parts(state)), np.uint8))
    return sums


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield f"{key!s}:".encode()
            yield from _parts(value[key])
        yield b"}"
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _parts(each)
        yield b"]"
    elif isinstance(value, (torch.Tensor, np.ndarray)):
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        yield f"{array.dtype}{list(array.shape)}".encode()
        yield struct.pack("<I", load_core().crc32c(flat) if flat.size else 0)
    else:
        yield f"{value!r};".encode()
