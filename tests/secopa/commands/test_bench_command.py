# SPDX-License-Identifier: Apache-2.0
"""`hipress bench` works with a profile in one process, and with measurements of a job's ranks."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hipress.secopa.commands.bench import app
from hipress.secopa.plan.plan import Plan
from hipress.secopa.profile.profile import Profile
from tests.launch.conftest import HIPRESS
from tests.secopa.commands.test_profile_command import hipress
from tests.secopa.whatif.test_worth import on_hosts


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    file = tmp_path / "profile.json"
    on_hosts(1.25e8, "a", "b", "c", "d").write(file)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_table_a_picture_and_a_sentence(measured: Path, tmp_path: Path) -> None:
    answer, picture, plan = tmp_path / "bench.json", tmp_path / "bench.png", tmp_path / "plan.json"
    written = ["--json", answer, "--picture", picture, "--save-plan", plan]
    named = ["--codec", "onebit", "--codec", "slow"]
    done = run("--profile", measured, "--model", "resnet50", *named, *written)
    assert done.exit_code == 0, done.output
    table = {line.split("│")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("│")}
    assert list(table) == ["none", "onebit", "slow", "plan"]
    assert "pays" in table["onebit"]
    assert "loses" in table["slow"]
    assert done.stdout.count("Compression pays here") == 1
    assert "trainings have not cleared for every other optimizer: onebit (loses)" in done.stdout
    content = json.loads(answer.read_text())
    assert content["advice"] in done.stdout
    assert [row["verdict"] for row in content["rows"]] == ["-", "pays", "loses", "pays"]
    assert Plan.read(plan).world == 4
    if find_spec("matplotlib") is not None:
        assert picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert "matplotlib is not installed" in done.stdout


def test_without_a_duration_of_backward_no_transfer_is_hidden(measured: Path, tmp_path: Path) -> None:
    common = [
        "--profile",
        measured,
        "--codec",
        "onebit",
        "--picture",
        tmp_path / "b.png",
        "--json",
        tmp_path / "b.json",
    ]
    alone, hidden = [], []
    for found, more in ((alone, []), (hidden, ["--backward", "300s"])):
        done = run(*common, *more)
        assert done.exit_code == 0, done.output
        found += [row["step_s"] for row in json.loads((tmp_path / "b.json").read_text())["rows"]]
    assert len(alone) == 3  # the codec "slow" was not asked for
    assert max(alone) < 10
    assert min(hidden) >= 300


def test_gradients_come_from_a_file_or_a_function(measured: Path, tmp_path: Path) -> None:
    sizes = tmp_path / "sizes.txt"
    sizes.write_text("conv,1000000\nbias,10\n")
    done = run("--profile", measured, "--model", sizes, "--picture", tmp_path / "b.png")
    assert done.exit_code == 0, done.output
    assert "sizes, 4 ranks on 4 hosts" in done.stdout
    done = run("--profile", measured, "--model", "no_such_module_here:make")
    assert done.exit_code == 2
    assert "there is no module no_such_module_here" in done.output


def test_mistakes_are_told_in_a_sentence(measured: Path, tmp_path: Path) -> None:
    for arguments, said in (
        (["--model", "resnet"], "no model 'resnet': expected a file, MODULE:FUNCTION, or bert-base, gpt2"),
        (["--codec", "twobit"], "the profile has no codec 'twobit'"),
        (["--seconds", "0"], "--seconds 0: expected more than 0"),
        (["--picture", tmp_path / "missing" / "b.png"], "missing" if find_spec("matplotlib") else ""),
        (["--picture", tmp_path / "b.nothing"], "nothing" if find_spec("matplotlib") else ""),
    ):
        done = run("--profile", measured, *arguments)
        if said:
            assert done.exit_code == 2, done.output
            assert said in done.output.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.thorough
def test_ranks_measure_and_rank_0_answers(tmp_path: Path) -> None:
    kept, picture = tmp_path / "profile.json", tmp_path / "bench.png"
    asked = ["--codec", "onebit", "--codec", "dgc", "--seconds", "4", "--save-profile", str(kept)]
    done = hipress(
        "run", "-np", "2", "--no-prefix", *HIPRESS, "bench", *asked, "--picture", str(picture), MPLBACKEND="agg"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("resnet50, 2 ranks on 1 host") == 1
    assert done.stdout.count(" here: ") == 1
    # The command shows its progress while it measures.
    assert "hipress bench: " in done.stderr
    assert "of about 4 s)" in done.stderr
    assert Profile.read(kept).gradients is not None


@pytest.mark.slow
def test_one_rank_is_told_to_start_more() -> None:
    done = hipress("bench", "--seconds", "1")
    assert done.returncode == 2
    assert "this job has 1 rank: start 2 or more, such as hipress run -np 4 hipress bench" in done.stderr
