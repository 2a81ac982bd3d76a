# SPDX-License-Identifier: Apache-2.0
"""`hipress run -H` hands a job over to an installed launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.launch import handover
from hipress.launch.handover import HandoverOptions, hand_over
from tests.launch.conftest import HIPRESS, clean_environment
from tests.launch.launchers import HOROVODRUN, LAUNCHERS
from tests.launch.test_launchers import assert_gone, assert_met, found, read_pids

_PROGRAM = (sys.executable, str(Path(__file__).with_name("launched_rank.py")))
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: A script of a user may call `hipress run -H` in a rank of another job.
_ANOTHER_RANK = {"HIPRESS_RANK": "5", "RANK": "5", "WORLD_SIZE": "7", "MASTER_ADDR": "elsewhere", "MASTER_PORT": "1"}
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


def test_what_each_launcher_is_told(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(only, "srun", "#!/bin/sh\n")
    shape = ["--export=ALL", "--nodelist=a,b", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]
    program = [sys.executable, str(Path(handover.__file__).with_name("placed.py")), "python", "train.py"]
    assert command() == [f"{only}/srun", *shape, *program]
    stand_in(only, "mpirun", "#!/bin/sh\necho HYDRA build details:\n")
    variables = ["env", "LEVEL=a,b", "MASTER_PORT=7", "MASTER_ADDR=a"]
    hydra = ["-np", "4", "-hosts", "a:2,b:2", "-genvall"]
    assert command(env={"LEVEL": "a,b", "MASTER_PORT": "7"}) == [f"{only}/mpirun", *hydra, *variables, *program]
    stand_in(only, "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    handed_on = {"UCX_NET_DEVICES": "eth1", "NCCL_DEBUG": "INFO", "RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY": "1"}
    handed_on |= {"LD_LIBRARY_PATH": "/x", "CUDA_VISIBLE_DEVICES": "1", "GLOO_SOCKET_IFNAME": "eth1"}
    for name, value in handed_on.items():
        monkeypatch.setenv(name, value)
    open_mpi = command(size=3)
    given = [open_mpi[place + 1] for place, word in enumerate(open_mpi) if word == "-x"]
    assert set(handed_on) <= set(given)
    assert "HOME" not in given
    assert open_mpi[:7] == [f"{only}/mpirun", "-np", "3", "--host", "a:2,b:2", "--bind-to", "none"]
    assert "PATH" in given
    stand_in(only, "horovodrun", "#!/bin/sh\n")
    assert command(hosts="a,b:2") == [f"{only}/horovodrun", "-np", "3", "-H", "a:1,b:2", *program]
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
        [*HIPRESS, "run", "-H", "localhost:2", "--env", "LATER=a,b", *_PROGRAM, str(directory), ending],
        env=clean_environment() | _AS_ROOT | _ANOTHER_RANK | {"PATH": path, "UCX_LOG_LEVEL": "fatal"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_job_on_a_named_host(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "end")
    assert done.returncode == 0, done.stdout + done.stderr
    for rank, one in enumerate(found(tmp_path)):
        *place, address, port, ucx, later = one["torch"]
        assert place == [str(rank), "2", str(rank), "2", "0"]
        assert (address, ucx, later) == ("127.0.0.1", "fatal", "a,b")
        assert port == found(tmp_path)[0]["torch"][6]
    assert_met(tmp_path, LAUNCHERS[name].source)


def test_the_exit_code_is_the_launchers(tmp_path: Path) -> None:
    done = run("openmpi", tmp_path, "kill")
    assert done.returncode == 137, done.stdout + done.stderr
    assert len(found(tmp_path)) == 2
    assert_gone(read_pids(tmp_path, 2))
