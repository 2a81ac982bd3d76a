# SPDX-License-Identifier: Apache-2.0
"""`hipress run -H` with mpirun over hosts with separate networks: without an option, rank 0 listens at an address that
the other hosts reach, and torch's variables name it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import cluster
from tests.launch.conftest import HIPRESS, clean_environment
from tests.launch.launchers import LAUNCHERS

_RANK = Path(__file__).parents[1] / "launch" / "launched_rank.py"
#: Replaces ssh: the launcher calls it with -x HOST COMMAND.
_AGENT = """\
#!/bin/sh
[ "$1" = -x ] && shift
case $1 in {cases} *) echo "no node $1" >&2; exit 1 ;; esac
shift
exec nsenter --target $node --net --uts --ipc --mount --pid -- sh -c "$*"
"""
_THROUGH = {
    "openmpi": ("--prtemca", "plm_ssh_agent", "{agent}"),
    "mpich": ("-launcher", "ssh", "-launcher-exec", "{agent}"),
}
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
#: The first test makes the launcher's environment, which takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mpi", _THROUGH)
@pytest.mark.parametrize("ending", ["end", "kill"])
def test_two_nodes_with_two_ranks_each(nodes: Any, tmp_path: Path, mpi: str, ending: str) -> None:
    addresses = [cluster.network.address(node) for node in range(2)]
    agent = tmp_path / "agent"
    cases = " ".join(f"{address}) node={nodes.nodes[node]} ;;" for node, address in enumerate(addresses))
    agent.write_text(_AGENT.format(cases=cases))
    agent.chmod(0o755)
    through = [argument.format(agent=agent) for argument in _THROUGH[mpi]]
    real = LAUNCHERS[mpi].environment() / "bin" / "mpirun"
    (tmp_path / "mpirun").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} "$1"\nexec {shlex.join([str(real), *through])} "$@"\n'
    )
    (tmp_path / "mpirun").chmod(0o755)
    hosts = ",".join(f"{address}:2" for address in addresses)
    started = [*HIPRESS, "run", "-H", hosts, "--launcher", "mpirun"]
    # The launcher runs in the first host's network but in this PID namespace, so it can enter the other hosts.
    inside = ["nsenter", "--target", str(nodes.nodes[0]), "--net", "--uts", "--"]
    done = subprocess.run(
        [*inside, *started, sys.executable, str(_RANK), str(tmp_path), ending],
        env=clean_environment() | _AS_ROOT | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode == 0) == (ending == "end"), done.stdout + done.stderr
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    assert [one["meetings"][-1] for one in found] == [[0, 1, 2, 3]] * 4
    # The columns are rank, size, local rank, local size and cross rank.
    assert [one["place"] for one in found] == [[0, 4, 0, 2, 0], [1, 4, 1, 2, 0], [2, 4, 0, 2, 1], [3, 4, 1, 2, 1]]
    torch = [one["torch"][:7] for one in found]
    assert [place[:5] for place in torch] == [
        ["0", "4", "0", "2", "0"],
        ["1", "4", "1", "2", "0"],
        ["2", "4", "0", "2", "1"],
        ["3", "4", "1", "2", "1"],
    ]
    assert {place[5] for place in torch} == {addresses[0]}
    assert len({place[6] for place in torch}) == 1
