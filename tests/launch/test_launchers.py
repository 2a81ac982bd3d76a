# SPDX-License-Identifier: Apache-2.0
"""Under each launcher a job's ranks find each other without an option, and the job ends when one rank is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launch.conftest import HIPRESS, PATIENCE, assert_gone, clean_environment, read_pids
from tests.launch.launchers import LAUNCHERS

_PROGRAM = (sys.executable, str(Path(__file__).with_name("launched_rank.py")))
#: Launchers in this environment, with commands that start two ranks.
_OURS = {
    "hipress run": (*HIPRESS, "run", "-np", "2"),
    "torchrun": (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"),
}
#: The first test makes a launcher's environment, and may compile Horovod.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def command_of(launcher: str) -> list[str]:
    """The command that starts a program as two ranks."""
    if launcher == "torchrun":
        pytest.importorskip("torch.distributed")
    return list(_OURS[launcher]) if launcher in _OURS else LAUNCHERS[launcher].start(2)


def run(launcher: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*command_of(launcher), *_PROGRAM, str(directory), *arguments]
    return subprocess.run(
        command, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )


def found(directory: Path) -> list[dict[str, Any]]:
    """The reports that the two ranks have written."""
    return [json.loads((directory / f"{rank}.json").read_text()) for rank in range(2)]


def assert_met(directory: Path, source: str) -> None:
    for rank, one in enumerate(found(directory)):
        del one["torch"]
        # The ranks meet twice: init() works again after shutdown().
        assert one == {"source": source, "place": [rank, 2, rank, 2, 0], "meetings": [[0, 1], [0, 1]]}


@pytest.mark.parametrize("launcher", [*_OURS, *LAUNCHERS])
def test_two_ranks_meet(launcher: str, tmp_path: Path) -> None:
    done = run(launcher, tmp_path, "end")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_met(tmp_path, LAUNCHERS[launcher].source if launcher in LAUNCHERS else launcher)


@pytest.mark.parametrize("launcher", [*_OURS, *LAUNCHERS])
def test_a_killed_rank_ends_the_job(launcher: str, tmp_path: Path) -> None:
    done = run(launcher, tmp_path, "kill")
    assert done.returncode != 0
    assert len(list(tmp_path.glob("*.json"))) == 2, f"a rank had not met the other:\n{done.stdout}{done.stderr}"
    assert_gone(read_pids(tmp_path, 2))


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_srun_with_the_store_that_it_offers(mpi: str, tmp_path: Path) -> None:
    done = run(mpi, tmp_path, "end", "srun")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_met(tmp_path, "srun")


def start_step(directory: Path, ending: str) -> list[subprocess.Popen[bytes]]:
    """Starts two tasks with srun's variables and without a store. No package index has Slurm itself."""
    step = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": str(sum(map(ord, str(directory)))),
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "here",
        "SLURM_NODEID": "0",
    }
    return [
        subprocess.Popen(
            [*_PROGRAM, str(directory), ending],
            env=clean_environment() | step | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        )
        for rank in range(2)
    ]


def test_srun_without_a_store(tmp_path: Path) -> None:
    tasks = start_step(tmp_path, "end")
    assert [task.wait(timeout=PATIENCE) for task in tasks] == [0, 0]
    assert_met(tmp_path, "srun")
