# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 (He et al., version 1.5: the stride is in the 3×3 convolution) with torchvision's names."""

from __future__ import annotations

import torch
from torch import nn

from .vgg19 import loss


class Bottleneck(nn.Module):
    """Three convolutions beside the identity, or beside a projection where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != 4 * width:
            projection = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(4 * width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        identity = values if self.downsample is None else self.downsample(values)
        values = self.relu(self.bn1(self.conv1(values)))
        values = self.relu(self.bn2(self.conv2(values)))
        result: torch.Tensor = self.relu(self.bn3(self.conv3(values)) + identity)
        return result


def _layer(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    rest = (Bottleneck(4 * width, width, 1) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)


class Resnet50(nn.Module):
    """The model. Its input is images of 224 × 224 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _layer(64, 64, 3, 1)
        self.layer2 = _layer(256, 128, 4, 2)
        self.layer3 = _layer(512, 256, 6, 2)
        self.layer4 = _layer(1024, 512, 3, 2)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        values = self.layer4(self.layer3(self.layer2(self.layer1(values))))
        result: torch.Tensor = self.fc(values.mean((2, 3)))
        return result


__all__ = ["Resnet50", "loss"]
