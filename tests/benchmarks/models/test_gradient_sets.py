# SPDX-License-Identifier: Apache-2.0
"""benchmarks/models: the gradient sets have the tensors of the real models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import models
from benchmarks.models import generate

#: Numbers of tensors and of parameters in torchvision's VGG-19 and ResNet-50 and Hugging Face's BertModel and
#: GPT2Model.
KNOWN = {
    "vgg19": (38, 143_667_240),
    "resnet50": (161, 25_557_032),
    "bert-base": (199, 109_482_240),
    "gpt2": (148, 124_439_808),
}
#: Names and shapes of some tensors in these packages.
SAMPLES = {
    "vgg19": ("classifier.0.weight", (4096, 25088)),
    "resnet50": ("layer1.0.downsample.0.weight", (256, 64, 1, 1)),
    "bert-base": ("encoder.layer.11.attention.output.LayerNorm.bias", (768,)),
    "gpt2": ("h.11.attn.c_attn.weight", (768, 2304)),
}


@pytest.mark.parametrize("model", models.MODELS)
def test_tensors_and_parameters(model: str) -> None:
    gradients = models.load(model)
    count = sum(gradient.count for gradient in gradients.gradients)
    assert (len(gradients.gradients), count) == KNOWN[model]
    assert gradients.size == 4 * count
    name, shape = SAMPLES[model]
    assert {one.name: one.shape for one in gradients.gradients}[name] == shape


@pytest.mark.parametrize("model", models.MODELS)
def test_the_files_are_those_of_the_architectures(model: str) -> None:
    made = generate.without_times(model).gradients
    assert [(one.name, one.shape) for one in models.load(model).gradients] == [(one.name, one.shape) for one in made]


@pytest.mark.parametrize("model", models.MODELS)
def test_backward_goes_from_the_last_layer_to_the_first(model: str) -> None:
    gradients = models.load(model)
    assert gradients.measured
    times = [one.ready_s for one in gradients.gradients]
    assert 0 < min(times) < 0.5 * max(times)
    assert max(times) <= gradients.backward_s
    assert times.index(max(times)) < 5


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    gradients = models.load("vgg19")
    gradients.write(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == (models.gradient_set.HERE / "vgg19.json").read_bytes()


def test_one_tensor() -> None:
    (gradient,) = models.one_tensor(4099).gradients
    assert (gradient.shape, gradient.ready_s) == ((1024,), 0.0)
