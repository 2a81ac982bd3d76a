# SPDX-License-Identifier: Apache-2.0
"""torchft itself: a replica is killed and comes back, and another one fails a step that the others apply."""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hipress.errors import Unsupported
from tests import environments
from tests.launch.conftest import clean_environment
from tests.ranks import free_port

_LINE = re.compile(r"replica (\d): checksum (\w{8}), dropped (\d+)")


class _Replicas:
    """Processes of replica.py, and torchft's lighthouse."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._folder = environments.recipes() / "bin", folder
        bind = f"127.0.0.1:{free_port()}"
        self._environment = {**clean_environment(), "TORCHFT_LIGHTHOUSE": f"http://{bind}", "OMP_NUM_THREADS": "1"}
        self._started: list[subprocess.Popen[bytes]] = []
        command = [str(self._bin / "torchft_lighthouse"), "--min_replicas", "2", "--bind", bind]
        self._start([*command, "--heartbeat_timeout_ms", "4000", "--join_timeout_ms", "30000"], "lighthouse")

    def start(self, number: int, *again: str) -> subprocess.Popen[bytes]:
        script = str(Path(__file__).with_name("replica.py"))
        command = [str(self._bin / "python"), script, str(number), str(self._folder), *again]
        return self._start(command, f"replica-{number}{''.join(again)}")

    def _start(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            made = subprocess.Popen(command, env=self._environment, cwd=self._folder, stdout=log, stderr=log)
        self._started.append(made)
        return made

    def printed(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self._folder.glob("replica-*.log")))

    def end(self) -> None:
        for each in self._started:
            each.kill()
            each.wait()


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[_Replicas]:
    made = _Replicas(tmp_path)
    yield made
    made.end()


def _residual_of(state: dict[str, Any]) -> torch.Tensor:
    """What the average of the matrix lacks because of this replica's residuals."""
    result = torch.zeros(60_000, dtype=torch.float64)
    for key, each in state["states"].items():
        name, _, first, count = key.split("\n")
        assert name == "matrix"
        result[int(first) : int(first) + int(count)] += each["residual"].double()
    return result.view(300, 200) / state["participants"]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_a_replica_is_killed_and_comes_back(replicas: _Replicas, tmp_path: Path) -> None:
    first, second, third = (replicas.start(number) for number in range(3))
    assert third.wait(120) == -signal.SIGKILL, replicas.printed()
    third = replicas.start(2, "again")
    assert [each.wait(240) for each in (first, second, third)] == [0, 0, 0], replicas.printed()

    ends = _LINE.findall(replicas.printed())
    assert {number for number, *_ in ends} == {"0", "1", "2"}
    assert len({checksum for _, checksum, _ in ends}) == 1
    # Replica 1 got the model of another one, after the states were saved.
    assert {number: dropped for number, _, dropped in ends} == {"0": "0", "1": "60000", "2": "0"}

    lost = torch.load(tmp_path / "lost.pt")
    saved = [torch.load(tmp_path / f"saved-{number}.pt") for number in range(3)]
    given = lost["given"] + sum(each["given"] for each in saved)
    owed = given + saved[0]["model"].double()  # its steps are the averages, with a minus
    held = sum(_residual_of(each["state"]) for each in saved)
    assert float(_residual_of(lost["state"]).abs().max()) > 0.01
    torch.testing.assert_close(owed, held + _residual_of(lost["state"]), rtol=0, atol=1e-3)


_FAILED = """
import types, torch, torchft
from torchft.manager import _ManagedWork

class Failed(torch.distributed._Work):
    def wait(self, timeout=None):
        raise RuntimeError("Connection closed by peer")

manager = types.SimpleNamespace(report_error=print, _logger=types.SimpleNamespace(exception=print))
manager.allreduce = lambda buffer: _ManagedWork(manager, Failed(), buffer)
try:
    torchft.DistributedDataParallel._comm_hook(manager, types.SimpleNamespace(buffer=lambda: torch.zeros(1)))
except AssertionError:
    print("an assertion failed")
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_torchfts_own_hook_fails_as_the_page_says() -> None:
    command = [str(environments.recipes() / "bin" / "python"), "-c", _FAILED]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False, timeout=120)
    assert "an assertion failed" in done.stdout, done.stderr


def _torchft(**missing: Any) -> types.ModuleType:
    """A package with the names that HiPress uses, without `missing`: a class, or a name of it."""

    def made(name: str, *names: str) -> type:
        return type(name, (), {each: lambda *_: None for each in names if each != missing.get(name)})

    package = types.ModuleType("torchft")
    package.process_group = types.ModuleType("torchft.process_group")  # type: ignore[attr-defined]
    package.Manager = made("Manager", "allreduce", "current_step", "num_participants", "errored")  # type: ignore[attr-defined]
    package.DistributedDataParallel = made("DistributedDataParallel", "_comm_hook")  # type: ignore[attr-defined]
    wrapper = made("ProcessGroupWrapper", "configure", "abort", "shutdown", "allreduce", "_create_pg")
    package.process_group.ProcessGroupWrapper = wrapper  # type: ignore[attr-defined]
    return package


@pytest.fixture
def with_package(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(package: types.ModuleType) -> Any:
        monkeypatch.setitem(sys.modules, "torchft", package)
        monkeypatch.setitem(sys.modules, "torchft.process_group", package.process_group)
        monkeypatch.delitem(sys.modules, "hipress.torch.integrations.torchft", raising=False)
        return importlib.import_module("hipress.torch.integrations.torchft")

    yield use
    sys.modules.pop("hipress.torch.integrations.torchft", None)


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ({"Manager": "num_participants"}, r"torchft\.Manager\.num_participants"),
        ({"DistributedDataParallel": "_comm_hook"}, r"torchft\.DistributedDataParallel\._comm_hook"),
        ({"ProcessGroupWrapper": "_create_pg"}, r"torchft\.process_group\.ProcessGroupWrapper\._create_pg"),
    ],
)
def test_another_version_of_torchft_is_refused(with_package: Any, missing: dict[str, str], named: str) -> None:
    with pytest.raises(Unsupported, match=rf"uses {named}, .* pip install torchft==0\.2\.0"):
        with_package(_torchft(**missing))


def test_options_that_do_not_fit_changing_replicas_are_refused_at_once(with_package: Any) -> None:
    package = _torchft()
    package.process_group.ProcessGroupWrapper.__init__ = lambda self, timeout: None
    module = with_package(package)
    with pytest.raises(Unsupported, match="torchft's replicas come and go"):
        module.CompressedGroup("onebit", topology="hierarchical", ranks_per_host=2)


def test_a_package_that_registers_no_hook_of_ours_is_refused(with_package: Any) -> None:
    package = _torchft()
    package.DistributedDataParallel.__init__ = lambda self, manager, module: None
    with pytest.raises(Unsupported, match="does not register its _comm_hook"):
        with_package(package).DistributedDataParallel(package.Manager(), torch.nn.Linear(2, 2))
