# SPDX-License-Identifier: Apache-2.0
"""The launcher's connections to the processes of an elastic job."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from hipress.launch.elastic import server as servers
from hipress.launch.elastic.membership import ElasticSizes, Membership
from hipress.launch.elastic.server import MembershipServer
from hipress.launch.worlds.messages import encoded, proof


@pytest.fixture
def connected() -> Iterator[tuple[MembershipServer, socket.socket]]:
    """A launcher, and the connection of its only process."""
    membership = Membership(ElasticSizes(1, 1), 0.0)
    membership.started(0)
    server = MembershipServer(membership, "secret", "127.0.0.1")
    with socket.create_connection(("127.0.0.1", server.port), 5.0) as process:
        _take(server)
        nonce = json.loads(process.recv(1000))["nonce"]
        process.sendall(encoded({"number": 0, "proof": proof("secret", nonce)}))
        _take(server)
        yield server, process
    server.close()


def _take(server: MembershipServer, now: float = 0.0) -> None:
    for take in list(server.ready().values()):
        take(now)


def test_a_host_that_acknowledges_is_reachable_also_if_its_process_reads_nothing(
    connected: tuple[MembershipServer, socket.socket],
) -> None:
    server, process = connected
    for connection in server._connections.values():
        connection.socket.sendall(b"x" * 1000)
    for tenth in range(50):
        time.sleep(0.02)  # a kernel may acknowledge a little later
        assert server.unreachable(tenth / 10) == []
    assert len(process.recv(2000)) == 1000


def test_a_host_that_acknowledges_nothing_is_unreachable(
    connected: tuple[MembershipServer, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = connected
    left = [5]
    monkeypatch.setattr(servers, "_unacknowledged", lambda _: left[0])
    assert server.unreachable(10.0) == []
    assert server.unreachable(12.0) == []
    assert server.unreachable(12.6) == [0]
    left[0] = 0
    assert server.unreachable(13.2) == []
    left[0] = 5
    assert server.unreachable(20.0) == []
