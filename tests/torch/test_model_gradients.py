# SPDX-License-Identifier: Apache-2.0
"""write_gradients() and `hipress plan gradients` read the gradients of torch's models."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import hipress.torch as hp
from hipress.cli.main import app
from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import read_gradients

pytestmark = pytest.mark.slow

_MODULE = """\
import torch

class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(10, 300), torch.nn.ReLU(), torch.nn.Linear(300, 2).half())
        self[0].bias.requires_grad = False

def make_model():
    return Net()

model = make_model()
"""
_GRADIENTS = [("0.weight", 3000, "float32"), ("2.weight", 600, "float16"), ("2.bias", 2, "float16")]


@pytest.mark.parametrize("name", ["make_model", "Net", "model", "model.__class__"])
def test_the_command_names_what_training_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "my_module.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    done = CliRunner().invoke(app, ["plan", "gradients", f"my_module:{name}"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "Net: 3 gradients, 12.9 KiB; wrote model.json" in done.output
    found = read_gradients(tmp_path / "model.json")
    assert [(one.name, one.elements, one.dtype) for one in found.gradients] == _GRADIENTS
    assert found.model == "Net"


def test_backward_is_measured(tmp_path: Path) -> None:
    layers = [torch.nn.Linear(64, 64) for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    batch, calls = torch.ones(8, 64), []

    def backward() -> None:
        calls.append(None)
        model(batch).sum().backward()

    hp.write_gradients(model, tmp_path / "model.json", backward=backward, steps=3)
    assert len(calls) == 4
    found = read_gradients(tmp_path / "model.json")
    times = {one.name: one.release_s for one in found.gradients}
    assert list(times) == [name for name, _ in model.named_parameters()]
    assert all(time is not None for time in times.values())
    assert 0 < times["2.weight"] < times["1.weight"] < times["0.weight"] <= found.backward_s
    assert found.measured == "in training, median of 3 steps"
    assert all(parameter.grad is None for parameter in model.parameters())
    hp.write_gradients(model, tmp_path / "input.txt")
    assert len(calls) == 4
    assert (tmp_path / "input.txt").read_text().splitlines()[:2] == ["0.weight,4096", "0.bias,64"]


def test_a_shared_parameter_is_one_gradient(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    hp.write_gradients(model, tmp_path / "model.json")
    assert [one.name for one in read_gradients(tmp_path / "model.json").gradients] == ["0.weight", "0.bias", "1.bias"]


def test_what_has_no_gradients_is_refused(tmp_path: Path) -> None:
    for model, said in (
        (torch.nn.ReLU(), "ReLU has no parameters to train"),
        (torch.nn.LazyLinear(3), "parameter 'weight' has no shape yet: let the model see a batch first"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            hp.write_gradients(model, tmp_path / "model.json")
    with pytest.raises(InvalidArgument, match="steps=0: expected 1 or more"):
        hp.write_gradients(torch.nn.Linear(2, 2), tmp_path / "model.json", backward=lambda: None, steps=0)
    with pytest.raises(InvalidArgument, match="cannot write"):
        hp.write_gradients(torch.nn.Linear(2, 2), tmp_path / "no" / "model.json")
