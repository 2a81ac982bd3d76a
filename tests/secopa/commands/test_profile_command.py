# SPDX-License-Identifier: Apache-2.0
"""`hipress profile` in the ranks of a job."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hipress.secopa.profile.profile import Profile
from tests.launch.conftest import HIPRESS, clean_environment

pytestmark = pytest.mark.slow

MINUTES = 120.0


def hipress(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), **variables}
    return subprocess.run([*HIPRESS, *arguments], env=environment, capture_output=True, text=True, timeout=MINUTES)


def test_ranks_of_one_host_write_one_profile(tmp_path: Path) -> None:
    file, model = tmp_path / "profile.json", tmp_path / "input.txt"
    model.write_text("conv_weight,1000\n")
    asked = ["--codec", "tbq", "--codec", "dgc(ratio=0.01, momentum=0)", "--seconds", "2", "--gradients", str(model)]
    done = hipress("run", "-np", "2", "--no-prefix", *HIPRESS, "profile", "-o", str(file), *asked)
    assert done.returncode == 0, done.stderr
    profile = Profile.read(file)
    assert list(profile.codecs) == ["tbq", "dgc(ratio=0.01, momentum=0)"]
    assert len(profile.ranks) == 2
    assert len({place.host for place in profile.ranks}) == 1
    assert profile.shared_memory is not None
    assert profile.shared_memory.bandwidth_bytes_per_s > 1e7
    assert 0 < profile.shared_memory.latency_s < 1
    assert profile.gradients is not None
    assert profile.gradients.elements == 1000
    assert profile.made.endswith("hipress profile")
    for said in ("2 ranks on 1 hosts", "within a host", "tbq", f"wrote {file}"):
        assert done.stdout.count(said) == 1, done.stdout
    # The file is readable: a part that fits into a line has one line.
    assert len(file.read_text().splitlines()) < 200
    assert json.loads(file.read_text())["version"] == 1


@pytest.mark.thorough
def test_without_codecs_all_that_come_with_hipress_are_measured(tmp_path: Path) -> None:
    done = hipress("profile", "-o", str(tmp_path / "alone.json"), "--seconds", "0.5", HIPRESS_COMPUTE_THREADS="1")
    assert done.returncode == 0, done.stderr
    profile = Profile.read(tmp_path / "alone.json")
    assert {"onebit", "tbq", "terngrad", "dgc", "graddrop", "fp16", "bf16", "int8", "int4"} <= set(profile.codecs)
    assert "none" not in profile.codecs
    assert "there are no links" in done.stdout


def test_what_cannot_be_measured_is_said_in_a_sentence(tmp_path: Path) -> None:
    file = str(tmp_path / "profile.json")
    for arguments, variables, said in (
        (["--codec", "twobit"], {}, "twobit"),
        (["--seconds", "0"], {}, "--seconds 0: expected more than 0"),
        (["--gradients", "missing.txt"], {}, "missing.txt"),
        ([], {"HIPRESS_PIPELINING": "0"}, "HIPRESS_PIPELINING=0"),
    ):
        done = hipress("profile", "-o", file, *arguments, **variables)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert not Path(file).exists()
