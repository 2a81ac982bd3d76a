# SPDX-License-Identifier: Apache-2.0
"""Gradients of three real trainings: they classify images, continue a text, and remove noise from photographs.

All data come with Python and scikit-learn. Each training takes some steps first; then every rank computes the gradient
of the same weights for its own examples.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.optimizers import model as characters_model

#: For each rank, the flattened float32 gradients of all compressed tensors.
Gradients = list[list[NDArray[np.float32]]]
#: A function that draws examples and returns their mean loss.
Loss = Callable[[torch.Generator], Tensor]

#: HiPress' default, below which tensors travel raw.
MIN_COMPRESS_BYTES = 4096
#: Number of examples of a rank in a step, and number of steps before the measured gradients.
BATCH = 16
STEPS = 60


def digits() -> tuple[nn.Module, Loss]:
    """A convolutional network that reads the handwritten digits of scikit-learn."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    answers = torch.tensor(labels)
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 384), nn.ReLU(), nn.Linear(384, 10)),
    )

    def loss(generator: torch.Generator) -> Tensor:
        batch = torch.randint(len(images), (BATCH,), generator=generator)
        return functional.cross_entropy(model(images[batch]), answers[batch])

    return model, loss


def characters() -> tuple[nn.Module, Loss]:
    """The transformer of optimizers.py, which continues the text of Python's help."""
    text = characters_model.read_text("help")
    model = characters_model.CharacterModel(text.characters)
    return model, lambda generator: characters_model.loss(model, text.batch(BATCH, generator))


def photographs() -> tuple[nn.Module, Loss]:
    """A residual convolutional network that takes noise from patches of the two photographs of scikit-learn."""
    from sklearn.datasets import load_sample_images

    photos = [torch.tensor(photo).permute(2, 0, 1).float() / 255 for photo in load_sample_images().images]
    widths = [3, 64, 64, 64, 64, 3]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])

    def patch(generator: torch.Generator) -> Tensor:
        photo = photos[int(torch.randint(len(photos), (), generator=generator))]
        top, left = (int(torch.randint(size - 16, (), generator=generator)) for size in photo.shape[1:])
        return photo[:, top : top + 16, left : left + 16]

    def loss(generator: torch.Generator) -> Tensor:
        clean = torch.stack([patch(generator) for _ in range(BATCH)])
        noise = 0.1 * torch.randn(clean.shape, generator=generator)
        return functional.mse_loss(model(clean + noise), noise)

    return model, loss


TRAININGS: dict[str, Callable[[], tuple[nn.Module, Loss]]] = {
    "digits": digits,
    "characters": characters,
    "photographs": photographs,
}


def gradients_of(training: str, ranks: int, steps: int = STEPS) -> Gradients:
    """The gradients of each rank after `steps` steps of AdamW."""
    torch.manual_seed(0)
    # With more threads torch adds in another order, and the steps of a convolutional network enlarge the difference.
    torch.set_num_threads(1)
    model, loss = TRAININGS[training]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(generator).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    of_ranks: Gradients = []
    for rank in range(ranks):
        optimizer.zero_grad()
        loss(torch.Generator().manual_seed(1 + rank)).backward()  # type: ignore[no-untyped-call]
        found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        large = [gradient for gradient in found if gradient.nbytes >= MIN_COMPRESS_BYTES]
        of_ranks.append([gradient.flatten().numpy().copy() for gradient in large])
    return of_ranks
