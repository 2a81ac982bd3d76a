# SPDX-License-Identifier: Apache-2.0
"""Batches of images for each rank, from one folder per class as in ImageNet, or of random images in memory."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

import hipress.torch as hp

#: Mean and standard deviation of ImageNet's red, green and blue.
_MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
_DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
_KINDS = {".jpeg", ".jpg", ".png"}


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """The images `root`/CLASS/*.JPEG. Training gets a random part of each, perhaps mirrored; tests get the centre."""

    def __init__(self, root: Path, size: int, *, training: bool) -> None:
        classes = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self._files = [
            (file, label)
            for label, name in enumerate(classes)
            for file in sorted((root / name).iterdir())
            if file.suffix.lower() in _KINDS
        ]
        if not self._files:
            raise SystemExit(f"{root} has no images: expected {root}/CLASS/*.JPEG")
        self._size = size
        self._training = training

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        file, label = self._files[index]
        with Image.open(file) as opened:
            image = opened.convert("RGB")
        box = _random_part(*image.size) if self._training else _centre(*image.size)
        image = image.resize((self._size, self._size), Image.Resampling.BILINEAR, box)
        if self._training and random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(self._size, self._size, 3)
        return (pixels.permute(2, 0, 1) / 255 - _MEAN) / _DEVIATION, label


def synthetic_images(count: int, size: int) -> TensorDataset:
    """`count` random images of ImageNet's shape, with random labels."""
    return TensorDataset(torch.randn(count, 3, size, size), torch.randint(1000, (count,)))


class Batches:
    """This rank's share of the training images, in a new order each epoch."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._limit = arguments.num_iterations
        if arguments.train_dir is None:
            # A few batches repeat from memory, so that no disk slows the training.
            count = 4 * arguments.batch_size * hp.size()
            self._images, self._repeats = synthetic_images(count, arguments.image_size), -(-self._limit // 4)
        else:
            images = ImageFolder(arguments.train_dir, arguments.image_size, training=True)
            self._images, self._repeats = images, 1
        self._sampler = DistributedSampler(self._images, hp.size(), hp.rank(), seed=arguments.seed, drop_last=True)
        self._loader = DataLoader(
            self._images, arguments.batch_size, sampler=self._sampler, num_workers=arguments.workers, drop_last=True
        )
        if not len(self._loader):
            raise SystemExit(
                f"{len(self._images)} images do not fill one batch of {hp.size()} ranks: lower --batch-size"
            )

    def __len__(self) -> int:
        return min(self._limit, self._repeats * len(self._loader))

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        left = len(self)
        for repeat in range(self._repeats):
            self._sampler.set_epoch(number * self._repeats + repeat)
            for images, labels in self._loader:
                yield images, labels
                left -= 1
                if left == 0:
                    return


def _random_part(width: int, height: int) -> tuple[float, float, float, float]:
    """A part of 8 % to 100 % of the area, with sides in a ratio between 3/4 and 4/3."""
    area = width * height * random.uniform(0.08, 1)
    ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    part_width = min(width, math.sqrt(area * ratio))
    part_height = min(height, math.sqrt(area / ratio))
    left, top = random.uniform(0, width - part_width), random.uniform(0, height - part_height)
    return left, top, left + part_width, top + part_height


def _centre(width: int, height: int) -> tuple[float, float, float, float]:
    """The middle 7/8 of the shorter side."""
    side = min(width, height) * 7 / 8
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side
