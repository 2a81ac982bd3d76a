# SPDX-License-Identifier: Apache-2.0
"""The small models of the suite beside the transformer of benchmarks/optimizers/model.py."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
_EMBEDDED, _HIDDEN = 96, 256


class ImageModel(nn.Module):
    """Two convolutions and two matrices, for grey images of `pixels` × `pixels`. Shape [images, 1, pixels, pixels] to
    [images, CLASSES]."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * (pixels // 4) ** 2, 64)
        self.last = nn.Linear(64, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """See the class."""
        found = functional.max_pool2d(functional.relu(self.first(images)), 2)
        found = functional.max_pool2d(functional.relu(self.second(found)), 2)
        result: torch.Tensor = self.last(functional.relu(self.hidden(found.flatten(1))))
        return result


class RecurrentModel(nn.Module):
    """An LSTM that predicts the next character. Shape [sequences, length] to [sequences, length, characters]."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, _EMBEDDED)
        self.recurrent = nn.LSTM(_EMBEDDED, _HIDDEN, batch_first=True)
        self.head = nn.Linear(_HIDDEN, characters)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """See the class."""
        hidden, _ = self.recurrent(self.embedding(characters))
        result: torch.Tensor = self.head(hidden)
        return result
