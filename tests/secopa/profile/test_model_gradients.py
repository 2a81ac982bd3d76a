# SPDX-License-Identifier: Apache-2.0
"""A model becomes the file that `hipress plan --input` takes; the tests of each framework cover its own part."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from hipress.cli.main import app
from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import read_gradients
from hipress.secopa.profile.model_gradients import gradients_of_tensors, write_gradient_set


def tensor(*shape: int | None, dtype: str = "float32") -> SimpleNamespace:
    return SimpleNamespace(shape=shape, dtype=dtype)


def test_json_keeps_everything(tmp_path: Path) -> None:
    found = gradients_of_tensors("Net", [("a", tensor(2, 3)), ("b", tensor(dtype="float16"))])
    write_gradient_set(found, str(tmp_path / "model.json"))
    assert read_gradients(tmp_path / "model.json") == found
    assert [(one.name, one.elements, one.dtype) for one in found.gradients] == [
        ("a", 6, "float32"),
        ("b", 1, "float16"),
    ]


def test_lines_are_the_originals(tmp_path: Path) -> None:
    write_gradient_set(gradients_of_tensors("Net", [("a,b", tensor(2, 3)), ("c", tensor(5))]), tmp_path / "input.txt")
    assert (tmp_path / "input.txt").read_text() == "a,b,6\nc,5\n"
    assert [one.name for one in read_gradients(tmp_path / "input.txt").gradients] == ["a,b", "c"]
    with pytest.raises(InvalidArgument, match=r"cannot say that 'a' is float16: write a \.json file"):
        write_gradient_set(gradients_of_tensors("Net", [("a", tensor(2, dtype="float16"))]), tmp_path / "other.txt")
    assert not (tmp_path / "other.txt").exists()


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ([], "Net has no parameters to train"),
        ([("a", tensor(4, None))], r"parameter 'a' has the shape \(4, None\): let the model see a batch first"),
        ([("a", tensor(4, -1))], "let the model see a batch first"),
        ([("a", tensor(4)), ("a", tensor(5))], "Net: two gradients are called 'a'"),
        ([("a", tensor(4, dtype="int8"))], "Net: gradient .a.: dtype int8 is none of"),
        ([("a\n", tensor(4))], r"U\+000A"),
    ],
)
def test_what_has_no_gradients_is_refused(tensors: list[tuple[str, SimpleNamespace]], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        gradients_of_tensors("Net", tensors)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("models", "expected MODULE:FUNCTION, such as my_module:make_model"),
        ("models:", "expected MODULE:FUNCTION"),
        ("no_such_module:make", "there is no module no_such_module in"),
        ("models:missing", "models has no missing"),
        ("models:NUMBER", "models:NUMBER is a int: expected a model, or a function that makes one"),
        ("models:number", "models:number gave a int: expected a model of PyTorch, TensorFlow or MXNet"),
    ],
)
def test_names_of_no_model_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    (tmp_path / "models.py").write_text("NUMBER = 7\ndef number(): return 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "models", raising=False)
    done = CliRunner().invoke(app, ["plan", "gradients", target])
    assert done.exit_code == 2
    assert said in done.output
    assert list(tmp_path.glob("*.json")) == []


def test_a_module_that_misses_another_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "incomplete.py").write_text("import no_such_module_either\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(app, ["plan", "gradients", "incomplete:make"])
    assert isinstance(done.exception, ModuleNotFoundError)
    assert done.exception.name == "no_such_module_either"
