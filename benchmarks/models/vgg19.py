# SPDX-License-Identifier: Apache-2.0
"""VGG-19 (Simonyan & Zisserman, configuration E) with torchvision's names."""

from __future__ import annotations

import torch
from torch import nn

_CHANNELS: tuple[int | None, ...] = (
    *(64, 64, None),
    *(128, 128, None),
    *(256, 256, 256, 256, None),
    *(512, 512, 512, 512, None),
    *(512, 512, 512, 512, None),
)


class Vgg19(nn.Module):
    """The model. Its input is images of 224 × 224 pixels. None in the list of channels stands for pooling."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        last = 3
        for channels in _CHANNELS:
            if channels is None:
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(last, channels, 3, padding=1), nn.ReLU(inplace=True)]
            last = channels
        self.features = nn.Sequential(*layers)
        hidden = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(True)]
        self.classifier = nn.Sequential(*hidden, nn.Dropout(), nn.Linear(4096, 1000))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.classifier(self.features(images).flatten(1))
        return result


def loss(model: nn.Module, batch: int) -> torch.Tensor:
    """The loss of random images."""
    scores = model(torch.randn(batch, 3, 224, 224))
    return nn.functional.cross_entropy(scores, torch.randint(1000, (batch,)))
