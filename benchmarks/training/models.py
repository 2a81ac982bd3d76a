# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 and BERT-base in plain torch operations, a few matrices, and a small network, with random batches, as a
step's cost does not depend on values.

The models have as many parameters as in models/*.json; in BERT torch keeps queries, keys and values in one tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

CLASSES = 1000
IMAGE = 224
TOKENS = 128
VOCABULARY = 30522
#: BERT-base's width, number of layers, number of heads, and width of the feed-forward part.
WIDTH, LAYERS, HEADS, INNER = 768, 12, 12, 3072


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a shortcut (He et al., 2015), the stride at the 3×3 as in torchvision."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut: nn.Module = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Maps [N, C, H, W] to [N, 4·width, H/stride, W/stride]."""
        return functional.relu(self.inner(images) + self.shortcut(images))


def resnet50() -> nn.Module:
    """ResNet-50, with 25,557,032 parameters in 161 tensors."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


class Bert(nn.Module):
    """The encoder of BERT-base (Devlin et al., 2018) with its pooler; a loss on the pooled output stands for a task."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(512, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout=0.1, activation="gelu", batch_first=True)
            for _ in range(LAYERS)
        )
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Maps [N, tokens] to [N, WIDTH]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        values = self.norm(self.words(tokens) + self.positions(places) + self.kinds(torch.zeros_like(tokens)))
        for layer in self.layers:
            values = layer(values)
        return torch.tanh(self.pooler(values[:, 0]))


@dataclass(frozen=True)
class Workload:
    """A model with its loss and batches."""

    make: Callable[[], nn.Module]
    batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def on(self, device: torch.device) -> Workload:
        """The same with model and batches in the memory of `device`."""

        def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
            inputs, targets = self.batch(size)
            return inputs.to(device), targets.to(device)

        return replace(self, make=lambda: self.make().to(device), batch=batch)


def _images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 3, IMAGE, IMAGE), torch.randint(CLASSES, (count,))


def _texts(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(VOCABULARY, (count, TOKENS)), torch.randn(count, WIDTH)


#: Width and number of the matrices of a model that computes little, for questions that need many steps.
MATRIX, MATRICES = 1536, 4


def _matrices() -> nn.Module:
    """A model of 9,443,328 parameters in 8 tensors."""
    layers = [nn.Sequential(nn.Linear(MATRIX, MATRIX), nn.ReLU()) for _ in range(MATRICES)]
    return nn.Sequential(*layers)


def _vectors(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, MATRIX), torch.randn(count, MATRIX)


#: Width of the small network: of its steps most is the call of each operation.
NARROW = 64


def _small() -> nn.Module:
    """A model of 17,226 parameters in 6 tensors."""
    return nn.Sequential(nn.Linear(NARROW, 128), nn.ReLU(), nn.Linear(128, NARROW), nn.ReLU(), nn.Linear(NARROW, 10))


def _rows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, NARROW), torch.randint(10, (count,))


WORKLOADS = {
    "small": Workload(_small, _rows, functional.cross_entropy),
    "matrices": Workload(_matrices, _vectors, functional.mse_loss),
    "resnet50": Workload(resnet50, _images, functional.cross_entropy),
    "bert-base": Workload(Bert, _texts, functional.mse_loss),
}
