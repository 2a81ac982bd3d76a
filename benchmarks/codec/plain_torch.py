# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs in plain torch operations over the whole tensor, as in research code. codec.py compares HiPress
with them.

The structure is that of GRACE (github.com/sands-lab/grace): a memory adds the residual of earlier steps, a compressor
encodes, and the memory keeps the difference to the decoded values. The operations are the direct ones; they are chosen
neither for speed nor for slowness. torch can be three to ten times as fast, depending on the codec, with operations in
place, without selections by mask, with states set to zero by index (as in the release of deep gradient compression),
and with huge pages.

Unlike in GRACE, codes are packed into bits after the memory's update, and terngrad's levels reach from the least to
the greatest value. Codecs that GRACE does not have are written in the same style. Unlike in compll/algorithms,
onebit's means and terngrad's levels are of the whole tensor; dgc and graddrop adapt a threshold, so they send about the
requested number of values, possibly more; randomk draws its places from the whole tensor; huge values may overflow.
Random numbers come from torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.codec.block_compressors import DynamicTree, EfSignSgd, Float4, Float8, Halves, Integers, Natural, Qsgd
from benchmarks.codec.choosing_compressors import RandomK, Threshold, TopK
from benchmarks.codec.compressors import Compressed, Compressor, Largest, Message, Onebit, Tbq, Terngrad
from benchmarks.codec.width_compressors import Dynamiq


class Memory:
    """The memory of a compressor between steps. This base class keeps nothing."""

    def compensate(self, gradient: Tensor) -> Tensor:
        """The gradient plus the residual of earlier steps; the argument stays unchanged."""
        return gradient

    def update(self, tensor: Tensor, compressor: Compressor, compressed: Compressed) -> None:
        """Keeps the error of the compressed form of `compensate`'s result."""


class ResidualMemory(Memory):
    """Keeps the difference to the decompressed tensor."""

    def __init__(self, count: int, beta: float = 1.0, gamma: float = 1.0) -> None:
        self.beta = beta
        self.gamma = gamma
        self.residual = torch.zeros(count)

    def compensate(self, gradient: Tensor) -> Tensor:
        return self.beta * self.residual + self.gamma * gradient

    def update(self, tensor: Tensor, compressor: Compressor, compressed: Compressed) -> None:
        self.residual = tensor - compressor.decompress(compressed, len(tensor))


class MomentumMemory(Memory):
    """Keeps the values that are not sent, accumulated with momentum. It needs the mask of `Largest`."""

    def __init__(self, count: int, momentum: float) -> None:
        self.momentum = momentum
        self.velocity = torch.zeros(count)
        self.accumulated = torch.zeros(count)

    def compensate(self, gradient: Tensor) -> Tensor:
        self.velocity = self.momentum * self.velocity + gradient
        self.accumulated += self.velocity
        return self.accumulated

    def update(self, tensor: Tensor, compressor: Compressor, compressed: Compressed) -> None:
        unsent = ~compressed[-1]
        self.velocity = self.velocity * unsent
        self.accumulated = self.accumulated * unsent


class TorchCodec:
    """A compressor with its memory, for one tensor of `count` elements per step."""

    def __init__(self, compressor: Compressor, memory: Memory) -> None:
        self.compressor = compressor
        self.memory = memory

    def encode(self, gradient: Tensor) -> Message:
        """The message of a one-dimensional float32 tensor, which stays unchanged."""
        tensor = self.memory.compensate(gradient)
        compressed = self.compressor.compress(tensor)
        self.memory.update(tensor, self.compressor, compressed)
        return self.compressor.pack(compressed)

    def decode(self, message: Message, out: Tensor) -> None:
        """Adds the decoded values to `out`."""
        out += self.compressor.decompress(self.compressor.unpack(message, len(out)), len(out))


def onebit(count: int) -> TorchCodec:
    """Message: low and high; signs."""
    return TorchCodec(Onebit(), ResidualMemory(count))


def tbq(count: int, threshold: float = 0.05) -> TorchCodec:
    """Message: codes."""
    return TorchCodec(Tbq(threshold), ResidualMemory(count))


def terngrad(count: int, bitwidth: int = 2, stochastic: bool = True) -> TorchCodec:
    """Message: least value and step; codes."""
    return TorchCodec(Terngrad(bitwidth, stochastic), Memory())


def dgc(count: int, momentum: float = 0.9, ratio: float = 0.001, sample_rate: float = 0.001) -> TorchCodec:
    """Message: values; indices as int32."""
    return TorchCodec(Largest(count, ratio, sample_rate), MomentumMemory(count, momentum))


def graddrop(count: int, ratio: float = 0.001, sample_rate: float = 0.001) -> TorchCodec:
    """Message: values; indices as int32."""
    return TorchCodec(Largest(count, ratio, sample_rate), ResidualMemory(count))


def _stateless(compressor: Callable[[], Compressor]) -> Callable[[int], TorchCodec]:
    return lambda count: TorchCodec(compressor(), Memory())


def _with_residual(compressor: Callable[[], Compressor]) -> Callable[[int], TorchCodec]:
    return lambda count: TorchCodec(compressor(), ResidualMemory(count))


def _choosing(compressor: Callable[[float], Compressor]) -> Callable[..., TorchCodec]:
    return lambda count, ratio=0.01: TorchCodec(compressor(ratio), ResidualMemory(count))


def threshold(count: int, threshold: float = 0.01, ratio: float = 0.25) -> TorchCodec:
    """Message: values; indices as int32."""
    return TorchCodec(Threshold(threshold, ratio), ResidualMemory(count))


def int8(count: int, stochastic: bool = False) -> TorchCodec:
    """Message: scales of blocks; codes."""
    return TorchCodec(Integers(8, stochastic=stochastic), Memory())


CODECS: dict[str, Callable[..., TorchCodec]] = {
    "onebit": onebit,
    "tbq": tbq,
    "terngrad": terngrad,
    "dgc": dgc,
    "graddrop": graddrop,
    "bf16": _stateless(lambda: Halves(torch.bfloat16)),
    "fp16": _stateless(lambda: Halves(torch.float16)),
    "int8": int8,
    "int4": _with_residual(lambda: Integers(4)),
    "fp8_e4m3": _stateless(lambda: Float8(torch.float8_e4m3fn)),
    "fp8_e5m2": _stateless(lambda: Float8(torch.float8_e5m2)),
    "fp4_e2m1": _with_residual(Float4),
    "natural": _stateless(Natural),
    "qsgd": _stateless(Qsgd),
    "u8bit": _stateless(DynamicTree),
    "dynamiq": _stateless(Dynamiq),
    "efsignsgd": _with_residual(EfSignSgd),
    "topk": _choosing(TopK),
    "randomk": _choosing(RandomK),
    "threshold": threshold,
}


def create_torch_codec(text: str, count: int) -> TorchCodec | None:
    """Makes a codec from `name` or `name(option=value, ...)`, as the core's create_codec does, for `count` elements.

    Returns None for an unknown name. Raises ValueError for an option that this codec does not have.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", text)
    if not match or match[1] not in CODECS:
        return None
    pairs = [pair.partition("=") for pair in (match[2] or "").split(",") if pair.strip()]
    options = {name.strip(): _value(value.strip()) for name, _, value in pairs}
    try:
        return CODECS[match[1]](count, **options)
    except TypeError:
        raise ValueError(f"{text!r} has options that the same codec in torch does not have") from None


def _value(text: str) -> bool | int | float:
    if text in ("true", "false"):
        return text == "true"
    number = float(text)
    return int(number) if number.is_integer() else number
