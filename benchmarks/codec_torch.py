# SPDX-License-Identifier: Apache-2.0
"""The five codecs as research code writes them: plain torch operations, one after the other over the whole tensor.

They are what codec.py compares encoding with. The algorithms and parameters are those of compll/algorithms, down to the
packed bits; the style is that of GRACE and of the release of deep gradient compression. Where there is a choice of
operations, the faster one is taken. Random numbers are torch's own.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

Message: TypeAlias = tuple[Tensor, ...]

#: The largest finite float, halved: above it, doubling overflows.
_HALF_OF_LARGEST = 1.7014117e38
#: No float but zero is smaller.
_SMALLEST = 2.0**-149


class TorchCodec(ABC):
    """Encodes tensors of one length; what must be remembered between steps is kept in here."""

    @abstractmethod
    def encode(self, gradient: Tensor) -> Message:
        """What is to be sent for a one-dimensional float32 tensor, which is not changed."""

    @abstractmethod
    def decode(self, message: Message, out: Tensor) -> None:
        """Adds the decoded values to `out`."""


def pack(codes: Tensor, bits: int) -> Tensor:
    """Numbers below 2^bits, as uint8, packed into bytes; the first comes lowest."""
    per_byte = 8 // bits
    if len(codes) % per_byte:
        codes = torch.nn.functional.pad(codes, (0, -len(codes) % per_byte))
    columns = codes.view(-1, per_byte)
    packed = columns[:, 0].clone()
    for position in range(1, per_byte):
        packed |= columns[:, position] << bits * position
    return packed


def unpack(packed: Tensor, bits: int, count: int) -> Tensor:
    """What `pack` has packed."""
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
    return (packed.unsqueeze(1) >> shifts).bitwise_and_((1 << bits) - 1).view(-1)[:count]


class Onebit(TorchCodec):
    """Message: the means of the negative and of the other values; signs."""

    def __init__(self, count: int) -> None:
        self.residual = torch.zeros(count)

    def encode(self, gradient: Tensor) -> Message:
        value = self.residual.add_(gradient)
        sign = value >= 0
        positives = int(torch.count_nonzero(sign))
        high = value.clamp(min=0).sum() / max(positives, 1)
        low = value.clamp(max=0).sum() / max(len(value) - positives, 1)
        value -= torch.where(sign, high, low)
        return torch.stack((low, high)), pack(sign.view(torch.uint8), 1)

    def decode(self, message: Message, out: Tensor) -> None:
        (low, high), packed = message
        out += torch.where(unpack(packed, 1, len(out)).view(torch.bool), high, low)


class Tbq(TorchCodec):
    """Message: codes of two bits."""

    def __init__(self, count: int, threshold: float = 1.0) -> None:
        self.threshold = threshold
        self.residual = torch.zeros(count)

    def encode(self, gradient: Tensor) -> Message:
        value = self.residual.add_(gradient)
        code = (value >= self.threshold).to(torch.int8) - (value <= -self.threshold).to(torch.int8)
        value.sub_(code, alpha=self.threshold)
        return (pack(code.add_(1).view(torch.uint8), 2),)

    def decode(self, message: Message, out: Tensor) -> None:
        code = unpack(message[0], 2, len(out)).view(torch.int8).sub_(1)
        out.add_(code, alpha=self.threshold)


class Terngrad(TorchCodec):
    """Message: the least value and the distance of two levels; codes of `bitwidth` bits."""

    def __init__(self, count: int, bitwidth: int = 2, stochastic: bool = True) -> None:
        self.bitwidth = bitwidth
        self.stochastic = stochastic

    def encode(self, gradient: Tensor) -> Message:
        levels = (1 << self.bitwidth) - 1
        least, greatest = torch.aminmax(gradient)
        # Everything is halved, as in terngrad.cll: the distance between the largest floats overflows.
        step = (greatest * 0.5 - least * 0.5) / levels
        level = (gradient * 0.5).sub_(least * 0.5).div_(step) if step > 0 else torch.zeros_like(gradient)
        level = level.add_(torch.rand_like(level)).floor_() if self.stochastic else level.round_()
        code = level.clamp_(0, levels).to(torch.uint8)
        return torch.stack((least, step)), pack(code, self.bitwidth)

    def decode(self, message: Message, out: Tensor) -> None:
        (least, step), packed = message
        value = unpack(packed, self.bitwidth, len(out)).to(torch.float32).mul_(step).add_(least * 0.5)
        out.add_(value.clamp_(max=_HALF_OF_LARGEST), alpha=2)


class _Sparse(TorchCodec):
    """Message: indices, which increase; the values there."""

    def __init__(self, count: int, ratio: float, sample_rate: float) -> None:
        self.residual = torch.zeros(count)
        self.limit = min(count, math.ceil(count * ratio))
        self.samples = min(count, max(math.ceil(count * sample_rate), math.ceil(64 / ratio)))
        rank = self.samples * ratio
        # How many of the sample are above the threshold: for too few values to be chosen, four standard deviations of
        # bad luck are needed.
        above = int(rank + 4 * math.sqrt(rank)) + 1 if self.samples < count else self.limit
        self.above = min(above, self.samples)

    def largest(self) -> Tensor:
        """Where the residual is largest: at most `limit` indices in increasing order."""
        magnitude = self.residual.abs()
        count = len(magnitude)
        sample = magnitude[torch.randint(count, (self.samples,))] if self.samples < count else magnitude
        threshold = torch.topk(sample, self.above, sorted=False).values.min()
        # A zero is never sent.
        chosen = torch.nonzero(magnitude >= threshold.clamp_(min=_SMALLEST)).view(-1)
        if len(chosen) > self.limit:
            chosen = chosen[torch.topk(magnitude[chosen], self.limit, sorted=False).indices].sort().values
        return chosen

    def decode(self, message: Message, out: Tensor) -> None:
        index, value = message
        out.index_add_(0, index, value)


class Graddrop(_Sparse):
    """The values that are not sent stay in the residual."""

    def __init__(self, count: int, ratio: float = 0.001, sample_rate: float = 0.005) -> None:
        super().__init__(count, ratio, sample_rate)

    def encode(self, gradient: Tensor) -> Message:
        self.residual += gradient
        index = self.largest()
        value = self.residual[index]
        self.residual[index] = 0
        return index.to(torch.int32), value


class Dgc(_Sparse):
    """The values that are not sent stay in the residual, with their momentum."""

    def __init__(self, count: int, momentum: float = 0.9, ratio: float = 0.001, sample_rate: float = 0.005) -> None:
        super().__init__(count, ratio, sample_rate)
        self.momentum = momentum
        self.velocity = torch.zeros(count)

    def encode(self, gradient: Tensor) -> Message:
        torch.add(gradient, self.velocity, alpha=self.momentum, out=self.velocity)
        self.residual += self.velocity
        index = self.largest()
        value = self.residual[index]
        self.residual[index] = 0
        self.velocity[index] = 0
        return index.to(torch.int32), value


CODECS: dict[str, Callable[..., TorchCodec]] = {
    "onebit": Onebit,
    "tbq": Tbq,
    "terngrad": Terngrad,
    "dgc": Dgc,
    "graddrop": Graddrop,
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
