# SPDX-License-Identifier: Apache-2.0
"""Steps of 1-bit Adam (Tang et al., 2021, arXiv 2102.02888, algorithm 1): see hipress.torch.optim.OneBitAdam."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hipress.adapter.optim.steps import (
    MIN_COMPRESS_BYTES,
    Floats,
    Moved,
    Parameter,
    Steps,
    checked_number,
    codec_of_each,
)
from hipress.errors import InvalidArgument


@dataclass(frozen=True)
class OneBitAdamOptions:
    """The options of 1-bit Adam. Raises InvalidArgument for a value out of range."""

    freeze_step: int
    """Number of steps with exact gradients, 1 or more."""
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    codec: str = "onebit"
    """The codec of the momentum; it must have error feedback."""
    codec_for: Mapping[str, str] = field(default_factory=dict)
    """Codecs of single parameters, by name."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """Momentum with fewer bytes travels exactly."""

    def __post_init__(self) -> None:
        if not isinstance(self.freeze_step, int) or isinstance(self.freeze_step, bool) or self.freeze_step < 1:
            raise InvalidArgument(
                f"freeze_step={self.freeze_step!r}: give 1 or more; a variance that has seen no gradient is zero, and "
                "the step divides by it"
            )
        checked_number("beta_1", self.beta_1, 0.0, 1.0)
        checked_number("beta_2", self.beta_2, 0.0, 1.0)
        checked_number("epsilon", self.epsilon, 0.0)
        checked_number("min_compress_bytes", self.min_compress_bytes, 0)


class OneBitAdamSteps(Steps):
    """See Steps. The state of a parameter: "momentum" and "variance"."""

    def __init__(self, shapes: Mapping[str, Sequence[int]], options: OneBitAdamOptions, rates: str) -> None:
        """`rates`: learning rate and weight decay, which the ranks compare."""
        self._options = options
        self._codecs = codec_of_each(shapes, options.codec, options.codec_for, options.min_compress_bytes)
        super().__init__("onebitadam", shapes, {"the options": f"{options}, {rates}"})

    def step(self, number: int, parameters: Mapping[str, Parameter]) -> dict[str, Moved]:
        """Takes step `number`, counted from 1, of all parameters. Raises the errors of the exchange; InvalidArgument if
        the variance of a whole parameter would be frozen at zero."""
        options = self._options
        warm = number <= options.freeze_step
        momentum, variance = self._warm(parameters) if warm else self._frozen(parameters)
        if number == options.freeze_step:
            _check_frozen(variance, options.freeze_step)
        correction = math.sqrt(1 - options.beta_2 ** min(number, options.freeze_step))
        moved = {}
        for name, each in parameters.items():
            m, v, lr = momentum[name], variance[name], each.rates.lr
            if not warm:
                m = np.where(v == 0, np.float32(0), m)
            size = np.float32(lr / (1 - options.beta_1**number))
            divisor = np.sqrt(v) / np.float32(correction) + np.float32(options.epsilon)
            value = each.value * np.float32(1 - lr * each.rates.weight_decay) - size * m / divisor
            moved[name] = Moved(value, {"momentum": m, "variance": v})
        return moved

    def _warm(self, parameters: Mapping[str, Parameter]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        gradients = {name: np.array(each.gradient, np.float32) for name, each in parameters.items()}
        self._average(gradients)
        beta_1, beta_2 = np.float32(self._options.beta_1), np.float32(self._options.beta_2)
        one = np.float32(1)
        momentum = {
            name: beta_1 * _state(each, "momentum") + (one - beta_1) * gradients[name]
            for name, each in parameters.items()
        }
        variance = {
            name: beta_2 * _state(each, "variance") + (one - beta_2) * np.square(gradients[name])
            for name, each in parameters.items()
        }
        return momentum, variance

    def _frozen(self, parameters: Mapping[str, Parameter]) -> tuple[dict[str, Floats], dict[str, Floats]]:
        beta_1, one = np.float32(self._options.beta_1), np.float32(1)
        momentum = {
            name: np.asarray(beta_1 * _state(each, "momentum") + (one - beta_1) * each.gradient, np.float32)
            for name, each in parameters.items()
        }
        self._average(momentum, self._codecs)
        return momentum, {name: np.asarray(_state(each, "variance")) for name, each in parameters.items()}


def _state(parameter: Parameter, key: str) -> Floats:
    return parameter.state[key] if key in parameter.state else np.zeros_like(parameter.value)


def _check_frozen(variance: Mapping[str, Floats], freeze_step: int) -> None:
    for name, each in variance.items():
        if not each.any():
            raise InvalidArgument(
                f"parameter '{name}' has had no gradient in the first {freeze_step} steps, and its variance would be "
                "frozen at zero: raise freeze_step until every parameter is used, or leave this one out"
            )
