# SPDX-License-Identifier: Apache-2.0
"""Small models whose weights travel in a stream, and a store for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hipress.weights import Weight

Model = dict[str, Any]


def model(seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    return {
        "embedding": random.standard_normal((50, 8)).astype(np.float32),
        "bias": random.standard_normal(7).astype(np.float16),
        "nothing": np.zeros((0, 3), np.float32),
        "steps": np.array(5, np.int64),
    }


def weights(tensors: Model) -> list[Weight]:
    return [
        Weight(name, array.dtype.name, array.shape, array.itemsize, array.reshape(-1).view(np.uint8))
        for name, array in tensors.items()
    ]


def trained(tensors: Model, step: int) -> None:
    random = np.random.default_rng(step)
    for array in tensors.values():
        flat = array.reshape(-1)
        chosen = random.random(flat.size) < 0.1
        flat[chosen] += 1


def equal(one: Model, other: Model) -> bool:
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def versions_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.weights"))


class NamedBytes:
    """A store that is no folder."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def names(self) -> list[str]:
        """See Store."""
        return list(self.kept)

    def read(self, name: str) -> bytes:
        """See Store."""
        if name not in self.kept:
            raise FileNotFoundError(name)
        return self.kept[name]

    def write(self, name: str, parts: Any) -> None:
        """See Store."""
        if name in self.kept:
            raise FileExistsError(name)
        self.kept[name] = b"".join(parts)

    def delete(self, name: str) -> None:
        """See Store."""
        self.kept.pop(name, None)
