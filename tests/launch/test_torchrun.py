# SPDX-License-Identifier: Apache-2.0
"""Ranks under torchrun find each other through torch's store, which occupies MASTER_PORT."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from hipress.errors import InvalidArgument, Timeout, TransportError
from hipress.launch.rendezvous import Rendezvous, resolve
from tests.launch.conftest import clean_environment

pytestmark = pytest.mark.slow

TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}


@pytest.fixture
def agent_port() -> Iterator[str]:
    distributed = pytest.importorskip("torch.distributed")
    store = distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30))
    yield str(store.port)  # noqa: PT022  (the store must live until the test is over)


def meet(environ: dict[str, str], size: int = 2, timeout: float = 20.0) -> list[Rendezvous]:
    """Resolves the rendezvous of all ranks at once; the ranks are threads of this process."""
    places = [environ | {"RANK": str(r), "LOCAL_RANK": str(r % int(environ["LOCAL_WORLD_SIZE"]))} for r in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda place: resolve(place, timeout), places))


def test_rank_0_publishes_and_the_others_reach_it(agent_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The ranks share one process, and so one count of meetings. Ranks in separate processes would each count to the
    # same number.
    monkeypatch.setattr("hipress.launch.rendezvous.meeting._meetings", itertools.repeat(0))
    environ = TORCHRUN | {
        "MASTER_PORT": agent_port,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "job",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    first, second = meet(environ)
    assert (first.rank, second.rank, first.size, first.source) == (0, 1, 2, "torchrun")
    assert (first.host, first.port, first.token) == (second.host, second.port, second.token)
    assert (first.host, second.listen_fd) == ("127.0.0.1", None), "all ranks are on this host"
    assert str(first.port) != agent_port
    assert first.listen_fd is not None
    assert not os.get_inheritable(first.listen_fd)
    with socket.socket(fileno=first.listen_fd), socket.create_connection((second.host, second.port)):
        pass

    again = meet(environ | {"TORCHELASTIC_RESTART_COUNT": "1"})
    assert again[0].token == again[1].token != first.token, "a restart does not read the address of the run before"
    _close(again)


def test_without_an_agent_rank_0_serves_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("torch.distributed")
    monkeypatch.setattr("hipress.launch.rendezvous.meeting._meetings", itertools.repeat(0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    met = meet(TORCHRUN | {"MASTER_PORT": str(port)})
    assert met[0].token == met[1].token
    _close(met)
    # A script that also calls init_process_group() needs the same port; within a process both share the server.
    distributed.TCPStore("localhost", port, is_master=True, wait_for_workers=False, multi_tenant=True)


def test_two_hosts_listen_where_master_addr_points(agent_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hipress.launch.rendezvous.meeting._meetings", itertools.repeat(0))
    agent = {"MASTER_PORT": agent_port, "TORCHELASTIC_USE_AGENT_STORE": "True", "LOCAL_WORLD_SIZE": "1"}
    met = meet(TORCHRUN | agent | {"TORCHELASTIC_RUN_ID": "two"})
    assert (met[0].host, met[0].local_size) == ("127.0.0.1", 1), "loopback, because MASTER_ADDR is a loopback address"
    _close(met)
    # Where a host's own name means loopback, the other hosts could not connect.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))])
    from hipress.launch.rendezvous.listening import towards

    with pytest.raises(InvalidArgument, match=r"MASTER_ADDR='node1' is 127\.0\.0\.1.*cannot reach"):
        towards("node1", "MASTER_ADDR")


def test_rank_0_that_does_not_come(agent_port: str) -> None:
    environ = TORCHRUN | {"MASTER_PORT": agent_port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    with pytest.raises(Timeout, match=r"rank 1 waited 0\.5 s for rank 0"):
        resolve(environ | {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "nobody"}, timeout=0.5)


def test_no_store() -> None:
    pytest.importorskip("torch.distributed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = TORCHRUN | {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    with pytest.raises(TransportError, match=f"localhost:{port}"):
        resolve(environ, timeout=1)


def test_under_torchrun_itself() -> None:
    pytest.importorskip("torch.distributed")
    script = """
import socket
from hipress.launch.rendezvous import resolve
for _ in range(2):  # init(), shutdown(), init()
    r = resolve()
    if r.rank == 0:
        with socket.socket(fileno=r.listen_fd) as listener:
            print(listener.accept()[0].recv(99).decode() == r.token)
    else:
        with socket.create_connection((r.host, r.port)) as connection:
            connection.sendall(r.token.encode())
"""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    done = subprocess.run(
        [*command, sys.executable, "-c", script], env=clean_environment(), capture_output=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, b"True\nTrue\n"), done.stderr.decode()


def _close(met: list[Rendezvous]) -> None:
    for place in met:
        if place.listen_fd is not None:
            with contextlib.suppress(OSError):
                os.close(place.listen_fd)
