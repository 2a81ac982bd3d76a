# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs, each with the interpreter that defines it, and the inputs for both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.compll import Interpreter, compile_builtin
from tests.core.codec_reference import awkward_inputs

Floats = NDArray[np.float32]

FLOATS = ["fp8_e4m3", "fp8_e5m2", "fp4_e2m1"]
NAMES = ["onebit", "tbq", "terngrad", "dgc", "graddrop", "bf16", "int8", "int4", *FLOATS]
NAMES += ["int8_shared", "thc", "efsignsgd", "qsgd", "natural", "topk", "threshold", "randomk", "u8bit", "dynamiq"]
#: Codecs that take a sample to find the least value that they send.
SAMPLING = ["dgc", "graddrop"]
SPARSE = ["dgc", "graddrop", "topk", "threshold", "randomk"]

#: Every codec with its default options, and with option values that change the computation.
TEXTS = [
    *NAMES,
    "onebit(block=100, residual_factor=0.9, gradient_factor=0.3)",
    "tbq(threshold=0.3)",
    *(f"terngrad(bitwidth={b}, stochastic={s})" for b in (1, 2, 4, 8) for s in ("true", "false")),
    "terngrad(block=100)",
    "dgc(momentum=0.5, ratio=0.1, sample_rate=1, residual_factor=0.3, gradient_factor=0.7)",
    "dgc(momentum=0, ratio=1)",
    "graddrop(ratio=0.05)",
    "graddrop(ratio=0.3, sample_rate=0.5)",
    "int8(block=100)",
    "int8(block=5000, error_feedback=true)",
    "int8(stochastic=true, error_feedback=true, residual_factor=0.3)",
    "int4(block=16)",
    "int8_shared(levels=127, block=16)",
    "int8_shared(levels=3, block=5000, stochastic=true, error_feedback=false)",
    "thc(levels=31, reach=3.3, residual_factor=0.3, gradient_factor=0.7)",
    "thc(levels=127, reach=8, stochastic=true, error_feedback=false)",
    "int4(block=5000, stochastic=true, error_feedback=false)",
    "fp8_e4m3(block=100, stochastic=true, error_feedback=true, residual_factor=0.3)",
    "fp8_e5m2(stochastic=true, power_of_two=true)",
    "fp4_e2m1(stochastic=true, power_of_two=true)",
    "qsgd(levels=7, block=100, error_feedback=true)",
    "natural(stochastic=false, error_feedback=true)",
    "topk(ratio=0.3, residual_factor=0)",
    "threshold(threshold=0.5, ratio=0.3)",
    "randomk(ratio=0.3)",
    "u8bit(block=100, error_feedback=true)",
    "dynamiq(bits=3.3, block=32, error_feedback=true, residual_factor=0.3)",
    "dynamiq(bits=8, block=256)",
]


@dataclass(frozen=True)
class Builtin:
    name: str
    options: dict[str, Any]
    codec: _core.Codec
    definition: Interpreter


@cache
def builtin(text: str) -> Builtin:
    """The codec that a user's text describes."""
    name, _, inside = text.partition("(")
    pairs = [pair.split("=") for pair in inside.rstrip(")").split(", ") if pair]
    words = {"true": True, "false": False}
    options = {key: words[value] if value in words else float(value) for key, value in pairs}
    whole = {key: int(value) if key in ("block", "bitwidth", "levels") else value for key, value in options.items()}
    return Builtin(name, whole, _core.create_codec(text), Interpreter(compile_builtin(name), **whole))


def option(of: Builtin, name: str) -> float:
    """The value of a codec's option; the default where the text does not set it."""
    return float(of.definition.params[name])


def documented_bytes(of: Builtin, count: int) -> int:
    """The greatest size of a payload in bytes, computed from the formulas of docs/wire-format.md."""
    if count == 0:
        return 0
    if of.name == "onebit":
        return 8 * -(-count // int(option(of, "block"))) + -(-count // 8)
    if of.name == "tbq":
        return -(-count // 4)
    if of.name == "terngrad":
        return 8 * -(-count // int(option(of, "block"))) + -(-count * int(option(of, "bitwidth")) // 8)
    if of.name == "bf16":
        return 2 * count
    if of.name == "thc":
        return 4 * -(-count // 1024) + count
    if of.name == "natural":
        return count + -(-count // 8)
    if of.name == "dynamiq":
        block, blocks = int(option(of, "block")), -(-count // int(option(of, "block")))
        budget = block // 32 * (2 * blocks + math.floor((option(of, "bits") - 2 - 16 / block) * blocks))
        return 6 + 2 * blocks + 4 * min(count, budget)
    widths = {
        "int8": 8,
        "int8_shared": 8,
        "int4": 4,
        "fp8_e4m3": 8,
        "fp8_e5m2": 8,
        "fp4_e2m1": 4,
        "efsignsgd": 1,
        "qsgd": 8,
        "u8bit": 8,
    }
    if of.name in widths:
        return 4 * -(-count // int(option(of, "block"))) + -(-count * widths[of.name] // 8)
    return 4 + 8 * math.ceil(count * option(of, "ratio"))


def new_states(of: Builtin, count: int) -> dict[str, Floats]:
    return {name: np.zeros(count, np.float32) for name in of.codec.states}


def context(step: int, count: int) -> Mapping[str, Any]:
    """The inputs of encode besides the gradient; each differs from its default value."""
    return {"seed": 3 << 40 | 7, "step": step, "tensor": 5, "first_element": 1024 + count % 4, "scale": 0.5}


def normal(count: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def inputs(count: int) -> dict[str, Floats]:
    """By name: finite and infinite values and NaN that have broken codecs before."""
    generator = np.random.default_rng(count + 1)
    with np.errstate(over="ignore"):
        huge = (generator.standard_normal(count) * 1e38).astype(np.float32)
    last, middle, first = normal(count), normal(count), normal(count)
    last[-1:], middle[count // 2 : count // 2 + 1], first[:1] = np.nan, -np.inf, np.inf
    return awkward_inputs(count) | {
        "signed zeros": np.where(generator.random(count) < 0.5, -0.0, 0.0).astype(np.float32),
        "ties": generator.integers(-2, 3, count).astype(np.float32),
        "huge": huge,
        "NaN at the end": last,
        "infinite in the middle": middle,
        "infinite at the start": first,
    }


class Guarded:
    """An array of sentinel values that lies between other sentinel values."""

    MARGIN = 64

    def __init__(self, count: int, dtype: type[np.generic] = np.float32) -> None:
        self._memory = np.full(count + 2 * self.MARGIN, 77, dtype)
        self.array = self._memory[self.MARGIN : self.MARGIN + count]

    def intact_around(self) -> bool:
        return bool((self._memory[: self.MARGIN] == 77).all() and (self._memory[-self.MARGIN :] == 77).all())

    def untouched(self) -> bool:
        return bool((self._memory == 77).all())


def same(left: Floats, right: Floats) -> bool:
    """Compares the bits; a NaN may have other bits."""
    return bool(((left.view(np.uint32) == right.view(np.uint32)) | (np.isnan(left) & np.isnan(right))).all())
