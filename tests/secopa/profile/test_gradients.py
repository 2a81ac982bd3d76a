# SPDX-License-Identifier: Apache-2.0
"""Gradient sets can be read from files and made from models."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import Gradient, GradientSet, read_gradients
from hipress.secopa.profile.model_gradients import gradients_of_tensors

MODELS = Path(__file__).parents[3] / "benchmarks" / "models"


def test_the_originals_input_is_read(tmp_path: Path) -> None:
    path = tmp_path / "vgg19.txt"
    path.write_text("vgg0_dense0_weight,102760448\n\nvgg0_dense0_bias, 4096\n")
    gradients = read_gradients(path)
    assert gradients.model == "vgg19"
    assert [(one.name, one.elements, one.bytes) for one in gradients.gradients] == [
        ("vgg0_dense0_weight", 102760448, 411041792),
        ("vgg0_dense0_bias", 4096, 16384),
    ]
    assert gradients.bytes == 4 * gradients.elements == 411041792 + 16384


@pytest.mark.parametrize("line", ["weight", "weight,", ",5", "weight,-1", "weight,4.5", "weight,4 floats"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "input.txt"
    path.write_text(f"bias,4\n{line}\n")
    with pytest.raises(InvalidArgument, match="line 2: expected name,number_of_float32"):
        read_gradients(path)


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("bias,4\nbias,4\n")
    with pytest.raises(InvalidArgument, match="two gradients are called 'bias'"):
        read_gradients(path)


def test_the_benchmarks_models_are_read() -> None:
    gradients = read_gradients(MODELS / "resnet50.json")
    assert (gradients.model, len(gradients.gradients), gradients.backward_s) == ("resnet50", 161, 0.4292)
    first = gradients.gradients[0]
    assert (first.name, first.elements, first.release_s) == ("conv1.weight", 64 * 3 * 7 * 7, 0.4291)


def test_written_and_read_again(tmp_path: Path) -> None:
    gradients = read_gradients(MODELS / "vgg19.json")
    gradients.write(tmp_path / "copy.json")
    assert read_gradients(tmp_path / "copy.json") == gradients
    assert read_gradients(tmp_path / "copy.json").fingerprint() == gradients.fingerprint()


def test_what_was_not_measured_is_released_last() -> None:
    measured, other = Gradient(name="a", elements=1, release_s=0.1), Gradient(name="b", elements=1)
    assert GradientSet(gradients=(measured, other), backward_s=0.4).releases_s() == [0.1, 0.4]


def test_of_a_model_in_memory() -> None:
    torch_like = SimpleNamespace(shape=(2, 3), dtype="torch.bfloat16")
    tensorflow_like = SimpleNamespace(shape=(5,), dtype=SimpleNamespace(name="float16"))
    mxnet_like = SimpleNamespace(shape=(7,), dtype=np.float32)
    numpy = np.zeros((2, 2))
    named = [("a", torch_like), ("b", tensorflow_like), ("c", mxnet_like), ("d", numpy)]
    gradients = gradients_of_tensors("net", named)
    assert [(one.elements, one.dtype, one.bytes) for one in gradients.gradients] == [
        (6, "bfloat16", 12),
        (5, "float16", 10),
        (7, "float32", 28),
        (4, "float64", 32),
    ]


def test_a_type_that_is_no_gradients_is_refused() -> None:
    with pytest.raises(ValueError, match="gradient 'a': dtype int8 is none of float32"):
        Gradient(name="a", elements=1, dtype="int8")
