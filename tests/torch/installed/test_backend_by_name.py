# SPDX-License-Identifier: Apache-2.0
"""A program that only names the backend "hipress" gets it, and its processes end well."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.device_mesh import init_device_mesh

from hipress.torch.process_groups import CompressingGroup, backend
from tests.architecture.files import ROOT
from tests.torch.ddp import training
from tests.torch.ranks import run

_PROGRAM = Path(__file__).with_name("by_name.py")
#: How often four processes start and end a group. An accident at the end of a process may be rare: run 100 of them
#: after a change of how groups end.
_REPEATS = int(os.environ.get("HIPRESS_TEST_REPEATS", "5"))


def _end_well(folder: Path, world: int, *arguments: str) -> list[str]:
    """What ranks of the program print; all must end with 0."""
    settings = {**os.environ, backend.CODEC_VARIABLE: "onebit", "PYTHONPATH": str(ROOT)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(rank), str(world), arguments[0], str(folder / "store"), *arguments[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=settings,
        )
        for rank in range(world)
    ]
    printed = []
    for rank in ranks:
        output, errors = rank.communicate(timeout=120.0)
        assert rank.returncode == 0, errors[-3000:]
        printed.append(output)
    return printed


def test_the_package_declares_the_backend() -> None:
    """The installed package has the entry point that torch looks for, and it loads the function that registers."""
    (point,) = entry_points(group="torch.distributed.backends", name="hipress")
    assert point.load() is backend.register


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu:hipress", "cuda:hipress"])
def test_the_name_is_enough(tmp_path: Path, name: str) -> None:
    for printed in _end_well(tmp_path, 2, name):
        sent = int(printed.partition("has sent ")[2].split()[0])
        assert 0 < sent < 50_000 * 4 / 20


@training.in_process_group
def _mesh(_rank: int) -> tuple[bool, bool]:
    backend._configured = None
    mesh: Any = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rep", "shard"), backend_override={"rep": "hipress"})
    own, other = mesh["rep"].get_group(), mesh["shard"].get_group()
    return isinstance(own, CompressingGroup), isinstance(other, CompressingGroup)


@pytest.mark.slow
def test_a_mesh_takes_the_name(tmp_path: Path) -> None:
    assert run(_mesh, 2, str(tmp_path), **{backend.CODEC_VARIABLE: "onebit"}) == [(True, False)] * 2


@pytest.mark.slow
def test_the_name_without_a_codec_says_how_to_give_one(tmp_path: Path) -> None:
    command = [sys.executable, str(_PROGRAM), "0", "1", "cpu:hipress", str(tmp_path / "store")]
    settings = {key: value for key, value in os.environ.items() if key != backend.CODEC_VARIABLE}
    done = subprocess.run(
        command, env={**settings, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert f"or set the environment variable {backend.CODEC_VARIABLE}" in done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(60 * (1 + _REPEATS))
@pytest.mark.parametrize("how", ["destroyed", "left"])
def test_processes_start_and_end_the_group_again_and_again(tmp_path: Path, how: str) -> None:
    for number in range(_REPEATS):
        folder = tmp_path / str(number)
        folder.mkdir()
        _end_well(folder, 4, "cpu:hipress", how)
