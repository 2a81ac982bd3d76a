# SPDX-License-Identifier: Apache-2.0
"""The five codecs as users of research code get them today: plain torch operations, one after the other over the whole
tensor. codec.py compares encoding with them.

The structure is that of GRACE (github.com/sands-lab/grace): a memory adds what earlier steps missed, a compressor
encodes, and the memory keeps what decoding again does not give. So are the operations: those that say what is meant.
None was chosen for being fast or for being slow. This is not the best that torch can do: who works in place, avoids
selections by mask, sets states to zero by index as the release of deep gradient compression does, and gives torch huge
pages makes it three to ten times as fast, depending on the codec.

Unlike in GRACE, codes are packed into bits, after the memory is through, and terngrad's levels reach from the least to
the greatest value; tbq and graddrop, which it does not have, are written in the same way. Unlike in compll/algorithms,
onebit's means and terngrad's levels are of the whole tensor; dgc and graddrop adapt a threshold, so that they send
about as many values as they should, not at most; huge values may overflow. Random numbers are torch's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor
from torch_compressors import Compressed, Compressor, Largest, Message, Onebit, Tbq, Terngrad


class Memory:
    """What must be remembered between steps: here, nothing."""

    def compensate(self, gradient: Tensor) -> Tensor:
        """The gradient with what earlier steps missed. It is not changed itself."""
        return gradient

    def update(self, tensor: Tensor, compressor: Compressor, compressed: Compressed) -> None:
        """Remembers what is missing in the compressed form of what `compensate` has returned."""


class ResidualMemory(Memory):
    """The difference to the decompressed tensor."""

    def __init__(self, count: int, beta: float = 1.0, gamma: float = 1.0) -> None:
        self.beta = beta
        self.gamma = gamma
        self.residual = torch.zeros(count)

    def compensate(self, gradient: Tensor) -> Tensor:
        return self.beta * self.residual + self.gamma * gradient

    def update(self, tensor: Tensor, compressor: Compressor, compressed: Compressed) -> None:
        self.residual = tensor - compressor.decompress(compressed, len(tensor))


class MomentumMemory(Memory):
    """The values that are not sent, accumulated with their momentum. For `Largest`, whose mask it needs."""

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
    """A compressor with its memory, for the tensors of `count` elements that come one a step."""

    def __init__(self, compressor: Compressor, memory: Memory) -> None:
        self.compressor = compressor
        self.memory = memory

    def encode(self, gradient: Tensor) -> Message:
        """What is to be sent for a one-dimensional float32 tensor, which is not changed."""
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


CODECS: dict[str, Callable[..., TorchCodec]] = {
    "onebit": onebit,
    "tbq": tbq,
    "terngrad": terngrad,
    "dgc": dgc,
    "graddrop": graddrop,
}


def create_torch_codec(text: str, count: int) -> TorchCodec | None:
    """From `name` or `name(option=value, ...)`, as the core's create_codec, for tensors of `count` elements; None if
    there is none of that name. Raises ValueError if it cannot do what an option asks for."""
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
