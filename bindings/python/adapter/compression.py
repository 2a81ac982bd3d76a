# SPDX-License-Identifier: Apache-2.0
"""Horovod's `compression=`. Compression.none and Compression.fp16 are codecs here; the Python code of a user's own
compressor runs before and after an operation. Each framework has its own Compression.fp16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from hipress.errors import InvalidArgument


class Compressing(Protocol):
    """A value of `compression=`: a class with these static methods, or an object with these methods."""

    def compress(self, tensor: Any) -> tuple[Any, Any]: ...
    def decompress(self, tensor: Any, ctx: Any) -> Any: ...


class Compressor:
    """Base class of compressors, as in Horovod. Ranks combine the results of compress() element by element."""

    #: The codec that does the same within an operation; it does not hold for derived classes.
    codec: ClassVar[str]

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """The tensor to send, of the same shape on all ranks, and the context that decompress() gets."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The result of the operation as a tensor of the original type and shape."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors unchanged."""

    codec = "none"

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


_Tensor = TypeVar("_Tensor")


def codec_of(compression: Compressing, codec: str = "none", *, floating: bool = True, summed: bool = True) -> str:
    """The codec that the two arguments choose; "none" where compressor_of() returns a compressor.

    As in Horovod, `compression` does not change tensors that are not `floating`. Raises InvalidArgument.
    """
    done_by = _codec(compression)
    if done_by == "none":
        return codec
    if codec != "none":
        raise InvalidArgument(f"give either compression or codec, not both (codec={codec!r})")
    return done_by if done_by is not None and floating and summed else "none"


def compressor_of(compression: Compressing, *, summed: bool = True) -> Compressing | None:
    """The compressor to call in Python; None if a codec does the same. Codecs are for sums and averages (`summed`).

    Raises InvalidArgument.
    """
    done_by = _codec(compression)
    return None if done_by == "none" or (done_by is not None and summed) else compression


def compressed(
    compressor: Compressing | None, tensors: Sequence[_Tensor]
) -> tuple[list[_Tensor], Callable[[Sequence[_Tensor]], list[_Tensor]]]:
    """The tensors to send instead of `tensors`, and the function that makes the operation's results from theirs."""
    if compressor is None:
        return list(tensors), list
    pairs = [compressor.compress(tensor) for tensor in tensors]

    def decompressed(results: Sequence[_Tensor]) -> list[_Tensor]:
        return [compressor.decompress(result, ctx) for result, (_, ctx) in zip(results, pairs, strict=True)]

    return [tensor for tensor, _ in pairs], decompressed


def _codec(compression: Compressing) -> str | None:
    """The codec that does the same as `compression`, or None. Raises InvalidArgument."""
    if isinstance(compression, str):
        raise InvalidArgument(
            f"compression={compression!r}: give Compression.none, Compression.fp16 or a Compressor of your own, "
            f'or give a codec by name: codec="{compression}"'
        )
    if not (callable(getattr(compression, "compress", None)) and callable(getattr(compression, "decompress", None))):
        raise InvalidArgument(
            f"compression={compression!r} has no compress(tensor) and decompress(tensor, ctx): choose "
            "Compression.none, Compression.fp16 or a Compressor of your own"
        )
    kind = compression if isinstance(compression, type) else type(compression)
    codec: str | None = vars(kind).get("codec")
    return codec
