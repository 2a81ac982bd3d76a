# SPDX-License-Identifier: Apache-2.0
"""The guide on launchers: each of its commands runs under the launcher that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress.launch import rendezvous
from tests.docs import pages
from tests.launch.launchers import HOROVODRUN, LAUNCHERS

PAGE = "docs/guide/launching.md"
COMMANDS = pages.blocks(PAGE, "bash")
#: Open MPI takes the number of cores for the number of slots, and asks twice before it runs as root.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
#: In the place of train.py. The guide's scripts, which other tests run, import PyTorch first, and that takes seconds.
_SCRIPT = """
from hipress import runtime

runtime.init()
told = runtime.current().engine.allgather("rank", b"%d" % runtime.rank())
assert told == [b"%d" % rank for rank in range(runtime.size())], told
if runtime.rank() == 0:
    print(f"{runtime.size()} ranks have met")
"""
#: The first test makes a launcher's environment, and may compile Horovod.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def runs(command: str, directory: Path, *launchers: str) -> None:
    (directory / "train.py").write_text(_SCRIPT)
    folders = tuple(LAUNCHERS[launcher].environment() / "bin" for launcher in launchers)
    for folder in folders if "horovodrun" in launchers else ():
        shim = directory / "horovodrun"
        shim.write_text(f"#!{folder / 'python'}\n{HOROVODRUN}")
        shim.chmod(0o755)
    printed = pages.run(["bash", "-euc", command], directory, programs=(directory, *folders), variables=_OPEN_MPI)
    assert printed.count("2 ranks have met") == 1, printed


@pytest.mark.parametrize("command", [text for text in COMMANDS if "mpirun" not in text])
def test_the_commands(tmp_path: Path, command: str) -> None:
    runs(command, tmp_path, *(["horovodrun"] if "horovodrun" in command else []))


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize("command", [text for text in COMMANDS if "mpirun" in text])
def test_the_commands_of_mpi(tmp_path: Path, command: str, mpi: str) -> None:
    runs(command, tmp_path, mpi)


def test_the_table_names_every_launcher() -> None:
    text = (pages.ROOT / PAGE).read_text()
    for source in rendezvous.SOURCES:
        name, _, kind = source.name.partition(" (")
        assert f"`{name}" in text
        assert kind.removesuffix(")") in text
