# SPDX-License-Identifier: Apache-2.0
"""`hipress plan`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipress.cli.main import app
from hipress.secopa.plan.plan import Plan
from tests.secopa.profile.test_gradients import MODELS
from tests.secopa.profiles import linked, low_rank, profile

VGG19 = "conv0_weight,1728\nconv5_weight,2359296\ndense0_weight,102760448\ndense0_bias,4096\n"


def hipress(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["plan", *words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text(VGG19)
    return tmp_path


@pytest.mark.parametrize(("topology", "nodes", "partitions"), [("PS", "4", 4), ("PS", "16", 16), ("RING", "16", 16)])
def test_as_the_originals_script_was_called(folder: Path, topology: str, nodes: str, partitions: int) -> None:
    said = hipress("--input", "input.txt", "--topology", topology, "--nnodes", nodes)
    assert "no --profile: the plan uses the published costs sosp21-56g" in said
    lines = (folder / "SeCoPaPlan.txt").read_text().splitlines()
    assert [line.rsplit(",", 2)[0] for line in lines] == VGG19.split()
    compressed = [line.split(",")[2] for line in lines]
    # conv5_weight has 9 MiB: more than the limits of 2.61 and 8.19 MiB, and less than the limit of 9.42 MiB.
    assert compressed == ["n", "n" if (topology, nodes) == ("PS", "16") else "y", "y", "n"]
    assert lines[2] == f"dense0_weight,102760448,y,{partitions}"


def test_codecs_of_linked_tensors_are_planned_from_a_profile_that_has_them(folder: Path) -> None:
    every = {"shared": linked(4e9), "factors": low_rank(4e9)}
    profile().model_copy(update={"linked": every}).write(folder / "profile.json")
    shapes = [("conv", [512, 4608], 0.1), ("bias", [512], 0.1), ("dense", [1000, 2048], 0.0)]
    (folder / "model.json").write_text(json.dumps({"model": "small", "tensors": shapes}))
    asked = ("--profile", "profile.json", "--nnodes", "4", "-o", "plan.json")
    for codec in every:
        hipress("--input", "model.json", *asked, "--codec", codec)
        plan = Plan.read(folder / "plan.json")
        assert {decision.codec for decision in plan.decisions} == {"none", codec}
        assert plan.predicted_step_s is not None
        assert plan.predicted_uncompressed_step_s is not None
        assert plan.predicted_step_s < plan.predicted_uncompressed_step_s
    said = hipress("--input", "input.txt", *asked, "--codec", "factors", code=2)
    assert "the shape of 'conv0_weight' is not known" in " ".join(said.split())


def test_json_has_everything(folder: Path) -> None:
    hipress("--input", "input.txt", "--nnodes", "5", "--output", "plan.json")
    plan = Plan.read(folder / "plan.json")
    assert (plan.world, plan.cost_model, plan.model) == (5, "released", "input")
    decided = plan.decisions[2]
    assert decided.codec == "tbq"
    assert decided.predicted_s is not None
    assert decided.predicted_uncompressed_s is not None
    assert decided.predicted_s < decided.predicted_uncompressed_s
    assert all(decision.reason for decision in plan.decisions)


def test_a_profile_of_ones_own(folder: Path) -> None:
    profile().write(folder / "mine.json")
    words = ("--input", str(MODELS / "vgg19.json"), "--profile", "mine.json", "--model", "paper", "--nnodes", "4")
    said = hipress(*words, "-o", "plan.json", "--codec-for", "classifier*=none")
    assert "no --profile" not in said
    codecs = {decision.name: decision.codec for decision in Plan.read(folder / "plan.json").decisions}
    assert codecs["classifier.0.weight"] == "none"
    assert codecs["features.34.weight"] == "onebit"


def test_show(folder: Path) -> None:
    hipress("--input", "input.txt", "--nnodes", "4", "-o", "plan.json")
    shown = hipress("show", "plan.json")
    assert "dense0_weight" in shown
    assert "392 MiB" in shown
    assert "132 ms uncompressed" in shown
    assert "2 of 4 gradients are compressed" in shown


def test_diff(folder: Path) -> None:
    for nodes in ("4", "16"):
        hipress("--input", "input.txt", "--nnodes", nodes, "-o", f"{nodes}.json", "--topology", "PS")
    assert hipress("diff", "4.json", "4.json") == "the plans are equal\n"
    lines = hipress("diff", "4.json", "16.json", code=1).splitlines()
    assert lines[0] == "ranks: 4 | 16"
    assert "dense0_weight: 102760448 float32, tbq, ps, K=4 | 102760448 float32, tbq, ps, K=16" in lines


def test_check(folder: Path) -> None:
    hipress("--input", "input.txt", "--nnodes", "4", "-o", "plan.json")
    assert "fits the 4 gradients" in hipress("check", "plan.json", "--input", "input.txt", "--nnodes", "4")
    assert "for 4 ranks, not 8" in hipress("check", "plan.json", "--input", "input.txt", "--nnodes", "8", code=2)
    (folder / "input.txt").write_text(VGG19.replace("1728", "1729"))
    said = hipress("check", "plan.json", "--input", "input.txt", code=2)
    assert "'conv0_weight': the plan is for elements 1728, the model has 1729" in said


def test_check_knows_the_codecs_of_this_build(folder: Path) -> None:
    (folder / "plan.txt").write_text("a,5,y,1\n")
    (folder / "input.txt").write_text("a,5\n")
    words = ("check", "plan.txt", "--input", "input.txt", "--codec")
    assert "fits" in hipress(*words, "onebit")
    assert "the plan's 'a': " in hipress(*words, "twobit", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected --input FILE"),
        (("--input", "nowhere", "--nnodes", "4"), "cannot read nowhere"),
        (("--input", "input.txt"), "expected --nnodes N"),
        (("--input", "input.txt", "--nnodes", "4", "--topology", "TREE"), "knows the topologies ps and ring, not tree"),
        (("--input", "input.txt", "--nnodes", "4", "--codec", "dgc"), "no codec 'dgc'; it has: tbq"),
        (("--input", "input.txt", "--nnodes", "4", "--codec-for", "x"), "expected PATTERN=CODECS"),
        (("--input", "input.txt", "--nnodes", "4", "--planner", "oracle"), "no planner 'oracle'"),
        (("--input", "input.txt", "--nnodes", "4", "-o", "no/folder"), "cannot write no/folder"),
    ],
)
def test_mistakes_are_explained(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in hipress(*words, code=2)
