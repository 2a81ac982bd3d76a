# SPDX-License-Identifier: Apache-2.0
"""write_gradients() and `hipress plan gradients` name the gradients of TensorFlow's models as training does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (requirements/tensorflow.txt)")

import keras
import tensorflow as tf
from typer.testing import CliRunner

import hipress.tensorflow as hp
from hipress.cli.main import app
from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import read_gradients
from hipress.tensorflow.training.synchronizer import names_of

_MODULE = """\
import keras

def make_model():
    layers = [keras.layers.Input((16,)), keras.layers.Dense(64, name="first"), keras.layers.Dense(4, name="second")]
    model = keras.Sequential([*layers, keras.layers.BatchNormalization(trainable=False, name="norm")], name="net")
    return model
"""


def test_the_command_names_what_training_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_keras_module.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(app, ["plan", "gradients", "my_keras_module:make_model"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = read_gradients(tmp_path / "model.json")
    assert [one.elements for one in found.gradients] == [16 * 64, 64, 64 * 4, 4]
    assert all(one.dtype == "float32" for one in found.gradients)
    model = sys.modules["my_keras_module"].make_model()
    assert [one.name for one in found.gradients] == names_of(model.trainable_variables)


def test_of_a_module_of_tensorflow(tmp_path: Path) -> None:
    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(tf.zeros((3, 5)), name="weight")
            self.half = tf.Variable(tf.zeros(2, tf.bfloat16), name="half")
            self.count = tf.Variable(0, trainable=False)

    hp.write_gradients(Net(), tmp_path / "model.json")
    found = read_gradients(tmp_path / "model.json").gradients
    assert {(one.name, one.elements, one.dtype) for one in found} == {
        ("weight", 15, "float32"),
        ("half", 2, "bfloat16"),
    }


def test_a_model_that_is_not_built_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match="Sequential has no parameters to train; if they come with the first batch"
    ):
        hp.write_gradients(keras.Sequential([keras.layers.Dense(3)]), tmp_path / "model.json")
