# SPDX-License-Identifier: Apache-2.0
"""write_gradients() and `hipress plan gradients` name the gradients of Gluon's blocks as DistributedTrainer does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from typer.testing import CliRunner  # noqa: E402

import hipress.mxnet as hp  # noqa: E402
from hipress.cli.main import app  # noqa: E402
from hipress.errors import InvalidArgument  # noqa: E402
from hipress.secopa.plan.text_format import TextPlanOptions, read_plan  # noqa: E402
from hipress.secopa.profile.gradients import read_gradients  # noqa: E402
from tests.mxnet.models import backward, mlp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

_MODULE = """\
from mxnet.gluon import nn

def make_model():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(64, in_units=16), nn.BatchNorm(in_channels=64), nn.Dense(4, in_units=64))
    return net
"""


def test_the_command_names_what_training_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_gluon_module.py").write_text(_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = CliRunner().invoke(app, ["plan", "gradients", "my_gluon_module:make_model"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    net = sys.modules["my_gluon_module"].make_model()
    trained = [each for each in net.collect_params().values() if each.grad_req != "null"]
    found = read_gradients(tmp_path / "model.json").gradients
    assert [one.name for one in found] == [each.name for each in trained]
    assert [one.elements for one in found] == [16 * 64, 64, 64, 64, 64 * 4, 4]


def test_shapes_have_to_be_known(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="has no shape yet: let the model see a batch first"):
        hp.write_gradients(mx.gluon.nn.Dense(3), tmp_path / "model.json")
    with pytest.raises(InvalidArgument, match="HybridSequential has no parameters to train"):
        hp.write_gradients(mx.gluon.nn.HybridSequential(), tmp_path / "model.json")


def _trained_by_its_plan(path: str) -> int:
    """The number of gradients in the plan; training refuses a plan for other gradients."""
    hp.init()
    net = mlp(seed=1)
    backward(net, hp.rank(), 0)
    if hp.rank() == 0:
        hp.write_gradients(net, f"{path}/model.json")
        lines = "".join(f"{one.name},{one.elements},y,2\n" for one in read_gradients(f"{path}/model.json").gradients)
        Path(path, "plan.txt").write_text(lines)
    hp.barrier()
    plan = read_plan(f"{path}/plan.txt", TextPlanOptions("onebit", hp.size()))
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, plan=plan)
    trainer.step(8)
    mx.nd.waitall()
    return len(plan.decisions)


def test_a_plan_made_of_the_file_fits_in_training(tmp_path: Path) -> None:
    first, second = run(_trained_by_its_plan, 2, str(tmp_path))
    assert first == second > 1
