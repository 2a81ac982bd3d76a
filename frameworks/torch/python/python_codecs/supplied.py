# SPDX-License-Identifier: Apache-2.0
"""The functions of a user's class, with checks of what they return. Errors name codec, function and line."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.python_codecs.encode_state import EncodeState


class Supplied:
    """An object of a user's class."""

    def __init__(self, codec: str, kind: Any, options: Mapping[str, Any]) -> None:
        """Raises InvalidArgument if the class does not take the options."""
        self._codec = codec
        try:
            self._object: Any = kind(**options)
        except Exception as error:
            raise self._failed("its class", error) from error

    @property
    def has_any_length(self) -> bool:
        """Whether lengths of messages depend on the values."""
        return hasattr(self._object, "max_bytes")

    def max_bytes(self, count: int) -> int:
        """The most bytes of all tensors of a message of such a codec."""
        try:
            return int(self._object.max_bytes(count))
        except Exception as error:
            raise self._failed("max_bytes", error) from error

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        """The tensors of a message. Raises InvalidArgument."""
        try:
            made = self._object.encode(values, state)
        except Exception as error:
            raise self._failed("encode", error) from error
        tensors = tuple(made) if isinstance(made, list | tuple) else (made,)
        for each in tensors:
            if not isinstance(each, torch.Tensor):
                raise self._wrong(f"encode returned {_kind(each)}, and must return tensors")
            if each.device != values.device:
                raise self._wrong(f"encode returned a tensor on {each.device} for values on {values.device}")
        return tensors

    def decode(self, tensors: tuple[torch.Tensor, ...], count: int, device: torch.device) -> torch.Tensor:
        """As many floats. Raises InvalidArgument."""
        try:
            values = self._object.decode(tensors, torch.Size([count]))
        except Exception as error:
            raise self._failed("decode", error) from error
        if not isinstance(values, torch.Tensor):
            raise self._wrong(f"decode returned {_kind(values)}, and must return a tensor")
        if values.shape != (count,) or values.device != device or values.is_complex():
            raise self._wrong(
                f"decode returned {_kind(values)} of {values.dtype} for {count} values on {device}: it must have the "
                "shape that it is given"
            )
        return values.to(torch.float32)

    def new_states(self, state: EncodeState, values: torch.Tensor) -> list[torch.Tensor]:
        """The states that encode() has left. Raises InvalidArgument."""
        kept = state.kept()
        for name, each in kept.items():
            if not isinstance(each, torch.Tensor) or each.shape != values.shape or each.device != values.device:
                raise self._wrong(
                    f"encode set state.{name} to {_kind(each)}; it must have the values' shape, "
                    f"{tuple(values.shape)}, on {values.device}"
                )
        return [each.to(torch.float32) for each in kept.values()]

    def _wrong(self, what: str) -> InvalidArgument:
        return InvalidArgument(f"codec {self._codec}: {what}")

    def _failed(self, function: str, error: Exception) -> InvalidArgument:
        frames = traceback.extract_tb(error.__traceback__)
        at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
        return self._wrong(f"{function} raised {type(error).__name__}: {error}{at}")


def _kind(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} on {value.device}"
    return f"an object of type {type(value).__name__}"
