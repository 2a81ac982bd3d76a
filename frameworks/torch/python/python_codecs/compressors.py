# SPDX-License-Identifier: Apache-2.0
"""Compressors of GRACE and of Horovod as codecs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from hipress.codecs.typed import LoadedCodec
from hipress.errors import InvalidArgument
from hipress.torch.python_codecs.encode_state import EncodeState
from hipress.torch.python_codecs.registration import register_codec

#: Bytes for each value of messages whose length depends on values, a value and its place, and bytes beside them.
_MOST, _BESIDE = 12, 1024


def register_compressor(compressor: Any, name: str) -> LoadedCodec:
    """Registers a compressor of GRACE (an object with `compress(tensor, name)` and `decompress(tensors, ctx)`) or of
    Horovod (a class or an object with `compress(tensor)` and `decompress(tensor, ctx)`) as a codec, and returns it as
    register_codec() does.

    HiPress keeps the residual, in place of GRACE's memory. Each rank encodes, and messages are decoded before they are
    added. `ctx` does not travel: a rank decodes with the `ctx` of a tensor of as many values that it has compressed
    itself, so it must hold shapes and types only.

    Raises InvalidArgument, also if `ctx` depends on values, or if another codec has the name.
    """
    for function in ("compress", "decompress"):
        if not callable(getattr(compressor, function, None)):
            raise InvalidArgument(f"{compressor!r} has no {function}(): give a compressor of GRACE or of Horovod")
    takes_name = len(inspect.signature(compressor.compress).parameters) > 1
    call: Callable[[torch.Tensor], tuple[Any, Any]] = (
        (lambda values: compressor.compress(values, name)) if takes_name else compressor.compress
    )

    _check_contexts(call, compressor.decompress, name)

    class Compressed(_Compressed):
        """A compressor's functions."""

        _call = staticmethod(call)
        _compressor = compressor

    Compressed.__doc__ = f"{_kind_of(compressor).__name__} of {_kind_of(compressor).__module__}."
    if getattr(compressor, "tensors_size_are_same", True) is False:
        Compressed.max_bytes = _max_bytes  # type: ignore[attr-defined]
    settings = {} if isinstance(compressor, type) else vars(compressor)
    text = f"{_source_of(_kind_of(compressor))}\n{sorted((key, repr(value)) for key, value in settings.items())}"
    return register_codec(Compressed, name, text=text)


class _Compressed:
    _call: Callable[[torch.Tensor], tuple[Any, Any]]
    _compressor: Any

    def __init__(self) -> None:
        self._contexts: dict[tuple[torch.Size, torch.device], Any] = {}

    def encode(self, values: torch.Tensor, state: EncodeState) -> Any:
        """The tensors that compress() returns."""
        return self._call(values)[0]

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        """decompress() of them."""
        key = (shape, tensors[0].device)
        if key not in self._contexts:
            alike = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(key[1])
            made, context = self._call(alike)
            self._contexts[key] = (isinstance(made, torch.Tensor), context)
        is_one, context = self._contexts[key]
        values: torch.Tensor = self._compressor.decompress(tensors[0] if is_one else tensors, context)
        return values.reshape(shape)


def _check_contexts(call: Any, decompress: Any, name: str) -> None:
    """Raises InvalidArgument unless a message has the same meaning with the `ctx` of another tensor."""
    pair = [call(torch.randn(1000, generator=torch.Generator().manual_seed(seed))) for seed in (1, 2)]
    own, other = (decompress(pair[0][0], context) for _, context in pair)
    if not torch.equal(own, other):
        raise InvalidArgument(
            f"codec {name}: what compress() returns as ctx depends on the values, and ctx does not travel: return it "
            "as one of the tensors"
        )


def _max_bytes(_self: Any, count: int) -> int:
    return _MOST * count + _BESIDE


def _kind_of(compressor: Any) -> type:
    return compressor if isinstance(compressor, type) else type(compressor)


def _source_of(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return kind.__qualname__
