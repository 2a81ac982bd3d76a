# SPDX-License-Identifier: Apache-2.0
"""Steps of deep gradient compression (Lin et al., 2018, arXiv 1712.01887): see hipress.torch.optim.DGCSGD."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hipress.adapter.optim.steps import MIN_COMPRESS_BYTES, Floats, Moved, Parameter, Steps, checked_number
from hipress.errors import CorruptPayload, InvalidArgument
from hipress.options.warmup import Warmup, warmup_of


@dataclass(frozen=True)
class DGCOptions:
    """The options of deep gradient compression. Raises InvalidArgument for a value out of range."""

    momentum: float = 0.9
    ratio: float = 0.001
    """The share of a parameter's values that a rank sends in a step."""
    warmup: int | Warmup | None = None
    """Number of steps in which ranks send all values, or a Warmup with ratios."""
    nesterov: bool = False
    clip_norm: float | None = None
    """The largest norm of the sum of all ranks' gradients; None: no clipping."""
    momentum_masking: bool = True
    """Whether the velocity becomes zero where a rank has sent values."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """Gradients with fewer bytes are averaged exactly."""
    compress_vectors: bool = False
    """Whether parameters with one dimension or none are compressed, too."""

    def __post_init__(self) -> None:
        checked_number("momentum", self.momentum, 0.0, 1.0)
        if isinstance(self.ratio, bool) or not 0.0 < self.ratio <= 1.0:
            raise InvalidArgument(f"ratio={self.ratio!r}: give a number above 0, at most 1")
        if self.clip_norm is not None and not self.clip_norm > 0.0:
            raise InvalidArgument(f"clip_norm={self.clip_norm!r}: give a number above 0, or None")
        checked_number("min_compress_bytes", self.min_compress_bytes, 0)
        warmup = warmup_of(self.warmup)
        if warmup is not None and warmup.codec != "none":
            raise InvalidArgument(
                "DGCSGD has no codec: give the warm-up ratios, or only steps, to send all values in them"
            )

    def ratio_at(self, number: int) -> float:
        """The ratio of step `number`, counted from 1."""
        warmup = warmup_of(self.warmup)
        return self.ratio if warmup is None else warmup.ratio_at(number - 1, self.ratio)


class DGCSteps(Steps):
    """See Steps. The state of a parameter: "velocity"; "residual" if it is compressed; "decay_velocity" if it has
    weight decay. Each rank has its own velocity and residual of a compressed parameter."""

    def __init__(self, shapes: Mapping[str, Sequence[int]], options: DGCOptions, rates: str) -> None:
        """`rates`: learning rate and weight decay, which the ranks compare."""
        self._options = options
        self._sparse = {
            name
            for name, shape in shapes.items()
            if 4 * int(np.prod(shape)) >= options.min_compress_bytes and (options.compress_vectors or len(shape) > 1)
        }
        super().__init__("dgcsgd", shapes, {"the options": f"{options}, {rates}"})

    def is_sparse(self, name: str) -> bool:
        """Whether ranks send chosen values of a parameter, not all values."""
        return name in self._sparse

    def step(self, number: int, parameters: Mapping[str, Parameter]) -> dict[str, Moved]:
        """Takes step `number`, counted from 1, of all parameters. Raises the errors of the exchange."""
        gradients = self._clipped({name: np.array(each.gradient, np.float32) for name, each in parameters.items()})
        exact = {name: each for name, each in gradients.items() if name not in self._sparse}
        states: dict[str, dict[str, Floats]] = {name: {} for name in parameters}
        updates: dict[str, Floats] = {}
        for name in (each for each in parameters if each in self._sparse):
            states[name] = self._accumulated(parameters[name], gradients[name])
        self._exchange(states, updates, self._options.ratio_at(number))
        self._average(exact)
        moved = {}
        for name, each in parameters.items():
            if name in exact:
                updates[name] = self._momentum(each, states[name], "velocity", exact[name])
            decay = np.float32(each.rates.weight_decay)
            if decay:
                updates[name] = updates[name] + self._momentum(each, states[name], "decay_velocity", decay * each.value)
            moved[name] = Moved(each.value - np.float32(each.rates.lr) * updates[name], states[name])
        return moved

    def _clipped(self, gradients: dict[str, Floats]) -> dict[str, Floats]:
        if self._options.clip_norm is None:
            return gradients
        norm = math.sqrt(sum(float(np.square(each, dtype=np.float64).sum()) for each in gradients.values()))
        limit = self._options.clip_norm / math.sqrt(self.world)
        return {n: each * np.float32(limit / norm) for n, each in gradients.items()} if norm > limit else gradients

    def _accumulated(self, parameter: Parameter, gradient: Floats) -> dict[str, Floats]:
        """The velocity and the residual with this gradient added, before the exchange."""
        zeros = np.zeros_like(gradient)
        m, old = np.float32(self._options.momentum), parameter.state.get("velocity", zeros)
        residual = parameter.state.get("residual", zeros)
        if self._options.nesterov:
            velocity = m * (old + gradient)
            return {"velocity": velocity, "residual": residual + velocity + gradient}
        velocity = m * old + gradient
        return {"velocity": velocity, "residual": residual + velocity}

    def _exchange(self, states: dict[str, dict[str, Floats]], updates: dict[str, Floats], ratio: float) -> None:
        """Writes the averages of all ranks' sent values to `updates`. Makes the sent elements of `states` zero."""
        names = [name for name in states if name in self._sparse]
        if not names:
            return
        counts = {name: math.ceil(ratio * states[name]["residual"].size) for name in names}
        parts = []
        for name in names:
            residual, velocity = states[name]["residual"].reshape(-1), states[name]["velocity"].reshape(-1)
            # NaN counts as the largest value, so that it reaches every rank.
            order = np.where(np.isnan(residual), np.inf, np.abs(residual))
            index = np.sort(np.argpartition(-order, counts[name] - 1)[: counts[name]]).astype(np.int32)
            parts += [index.view(np.uint8), residual[index].view(np.uint8)]
            residual[index] = 0.0
            if self._options.momentum_masking:
                velocity[index] = 0.0
        gathered = self._gather(np.concatenate(parts))
        first = 0
        for name in names:
            count, total = counts[name], np.zeros(states[name]["residual"].size, np.float32)
            for rank, message in enumerate(gathered):
                index = message[first : first + 4 * count].copy().view(np.int32)
                if not (index.min() >= 0 and index.max() < total.size):
                    raise CorruptPayload(f"rank {rank}'s indices of '{name}' are not below {total.size}")
                total[index] += message[first + 4 * count : first + 8 * count].copy().view(np.float32)
            updates[name] = (total / np.float32(self.world)).reshape(states[name]["residual"].shape)
            first += 8 * count

    def _momentum(self, parameter: Parameter, state: dict[str, Floats], key: str, values: Floats) -> Floats:
        """The direction that ordinary SGD with momentum computes from the gradients `values`."""
        m = np.float32(self._options.momentum)
        velocity = values + m * parameter.state[key] if key in parameter.state else np.array(values, np.float32)
        state[key] = velocity
        return values + m * velocity if self._options.nesterov else velocity
