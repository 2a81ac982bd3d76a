# SPDX-License-Identifier: Apache-2.0
"""The gradients of a model in the form of the benchmarks: names, shapes and release times."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
#: The models with a file.
MODELS = ("vgg19", "resnet50", "bert-base", "gpt2")


@dataclass(frozen=True)
class Gradient:
    """The gradient of one tensor. `ready_s`: seconds from the start of backward until the gradient is complete."""

    name: str
    shape: tuple[int, ...]
    ready_s: float

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class GradientSet:
    """All gradients of a model in the order of registration. `backward_s`: duration of backward. `measured`: how the
    times were measured; empty: there are no measured times, and all times are 0."""

    model: str
    gradients: tuple[Gradient, ...]
    backward_s: float = 0.0
    measured: str = ""

    @property
    def size(self) -> int:
        """Bytes in float32."""
        return 4 * sum(gradient.count for gradient in self.gradients)

    def write(self, path: Path) -> None:
        """Writes one line per tensor, so that version control shows the changes."""
        head = {"model": self.model, "measured": self.measured, "backward_s": self.backward_s}
        lines = [f' "{name}": {json.dumps(value)},' for name, value in head.items()]
        tensors = [json.dumps([one.name, list(one.shape), one.ready_s]) for one in self.gradients]
        text = "\n".join(["{", *lines, ' "tensors": [', "  " + ",\n  ".join(tensors), " ]", "}"])
        path.write_text(text + "\n")


def load(model: str) -> GradientSet:
    """The gradient set of a model of `MODELS`."""
    content = json.loads((HERE / f"{model}.json").read_text())
    gradients = tuple(Gradient(name, tuple(shape), ready_s) for name, shape, ready_s in content["tensors"])
    return GradientSet(content["model"], gradients, content["backward_s"], content["measured"])


def one_tensor(size: int) -> GradientSet:
    """A single tensor of `size` bytes, rounded down to whole elements."""
    return GradientSet("one tensor", (Gradient("tensor", (size // 4,), 0.0),))
