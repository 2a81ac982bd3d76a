# SPDX-License-Identifier: Apache-2.0
"""`hipress run -H` hands a job over to an installed launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.launch.handover import HandoverOptions, hand_over
from tests.launch.conftest import HIPRESS, clean_environment
from tests.launch.launchers import HOROVODRUN, LAUNCHERS
from tests.launch.test_launchers import assert_gone, assert_met, found, read_pids

_PROGRAM = (sys.executable, str(Path(__file__).with_name("launched_rank.py")))
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: The first test makes a launcher's environment, and may compile Horovod.
pytestmark = pytest.mark.timeout(900)


def stand_in(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only folder in PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def command(hosts: str = "a:2,b:2", **options: object) -> list[str]:
    return hand_over(HandoverOptions(("python", "train.py"), hosts, **options))  # type: ignore[arg-type]


def test_what_each_launcher_is_told(only: Path) -> None:
    stand_in(only, "srun", "#!/bin/sh\n")
    shape = ["--nodelist=a,b", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]
    assert command() == [f"{only}/srun", *shape, "python", "train.py"]
    stand_in(only, "mpirun", "#!/bin/sh\necho HYDRA build details:\n")
    variables = ["env", "LEVEL=a,b"]
    hydra = ["-np", "4", "-hosts", "a:2,b:2"]
    assert command(env={"LEVEL": "a,b"}) == [f"{only}/mpirun", *hydra, *variables, "python", "train.py"]
    stand_in(only, "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    open_mpi = command(size=3)
    assert open_mpi[:7] == [f"{only}/mpirun", "-np", "3", "--host", "a:2,b:2", "--bind-to", "none"]
    assert open_mpi[open_mpi.index("PATH") - 1 : open_mpi.index("PATH") + 1] == ["-x", "PATH"]
    stand_in(only, "horovodrun", "#!/bin/sh\n")
    assert command(hosts="a,b:2") == [f"{only}/horovodrun", "-np", "3", "-H", "a:1,b:2", "python", "train.py"]
    assert command(launcher="srun")[0] == f"{only}/srun"


@pytest.mark.parametrize("hosts", ["", "a:0", "a:2,", "a:two", "a:1,a:1", "a b", "a:-1"])
def test_hosts_that_are_none(hosts: str) -> None:
    with pytest.raises(InvalidArgument, match="expected each host once"):
        command(hosts=hosts)


def test_what_cannot_be_handed_over(only: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"-H needs a launcher.*horovodrun.*mpirun.*srun"):
        command()
    with pytest.raises(InvalidArgument, match="-H needs mpirun"):
        command(launcher="mpirun")
    with pytest.raises(InvalidArgument, match="expected one of horovodrun, mpirun, srun"):
        command(launcher="ssh")
    with pytest.raises(InvalidArgument, match="-np 5 ranks do not fit on -H a:2,b:2"):
        command(size=5)
    stand_in(only, "srun", "#!/bin/sh\n")
    with pytest.raises(InvalidArgument, match="the same number for all"):
        command(hosts="a:2,b")
    stand_in(only, "mpirun", "#!/bin/sh\necho mine\n")
    with pytest.raises(InvalidArgument, match="neither Open MPI's nor MPICH's"):
        command()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("-H", "localhost:2", "--timeout", "3"), "--timeout is for jobs on this machine"),
        (("-np", "2", "--launcher", "mpirun"), "expected -H, too"),
        ((), "expected the number of ranks"),
    ],
)
def test_options_that_do_not_go_together(arguments: tuple[str, ...], problem: str) -> None:
    done = subprocess.run(
        [*HIPRESS, "run", *arguments, "true"], env=clean_environment(), capture_output=True, text=True
    )
    assert (done.returncode, problem in done.stderr) == (2, True), done.stderr


def run(name: str, directory: Path, ending: str) -> subprocess.CompletedProcess[str]:
    folder = LAUNCHERS[name].environment() / "bin"
    if name == "horovodrun":
        stand_in(directory, "horovodrun", f"#!{folder / 'python'}\n{HOROVODRUN}")
        folder = directory
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return subprocess.run(
        [*HIPRESS, "run", "-H", "localhost:2", *_PROGRAM, str(directory), ending],
        env=clean_environment() | _AS_ROOT | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_job_on_a_named_host(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "end")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_met(tmp_path, LAUNCHERS[name].source)


def test_the_exit_code_is_the_launchers(tmp_path: Path) -> None:
    done = run("openmpi", tmp_path, "kill")
    assert done.returncode == 137, done.stdout + done.stderr
    assert len(found(tmp_path)) == 2
    assert_gone(read_pids(tmp_path, 2))
