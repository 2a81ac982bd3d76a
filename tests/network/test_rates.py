# SPDX-License-Identifier: Apache-2.0
"""Measures the rates of networks over loopback, with threads as hosts, in a network namespace of the tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hipress import _core
from hipress.network import rates
from hipress.network.choice import Host, Network
from hipress.network.devices import Device
from hipress.network.rates import Unconnected, measure


def on_ranks(size: int, body: Callable[[Callable[[str, bytes], list[bytes]], int], Any]) -> list[Any]:
    """Runs `body` on every rank, a thread; returns the results by rank."""
    results: list[Any] = [None] * size

    def run(rank: int, plane: Any) -> None:
        results[rank] = body(lambda key, value: plane.allgather(key, value, 20.0), rank)

    planes = _core.make_local_control(size)
    threads = [threading.Thread(target=run, args=each) for each in enumerate(planes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive()
    return results


def network(hosts: int, start: int) -> Network:
    """A network whose devices have loopback addresses."""
    return Network(tuple(Device(f"lo:{start}", "tcp", f"127.0.{start}.{host + 1}/32") for host in range(hosts)))


def test_all_ranks_get_the_same_rates() -> None:
    """There are three hosts; the first has two ranks, of which one measures."""
    found = [network(3, 1), network(3, 2)]
    hosts = [Host(f"node{number}", rank, (), "") for number, rank in enumerate([0, 2, 3])]
    own = [0, None, 1, 2]
    results = on_ranks(4, lambda allgather, rank: measure(allgather, hosts, own[rank], found))
    assert results[1:] == results[:1] * 3
    assert all(isinstance(rate, float) and rate > 10 for rate in results[0])


def test_a_host_that_is_not_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first host has a wrong address of the second host, and no process listens there."""
    monkeypatch.setattr(rates, "CONNECT", 0.5)
    hosts = [Host(f"node{number}", number, (), "") for number in range(2)]
    told, real = network(2, 1), network(2, 2)

    def body(allgather: Callable[[str, bytes], list[bytes]], rank: int) -> list[float | Unconnected]:
        mixed = Network((real.devices[0], (told if rank == 0 else real).devices[1]))
        return measure(allgather, hosts, rank, [mixed])

    (result,) = on_ranks(2, body)[0]
    assert isinstance(result, Unconnected)
    assert result.reason.startswith("rank 0 (node0) cannot connect from its lo:2 (127.0.2.1) to lo:1 (127.0.1.2)")


def test_who_does_not_know_the_ticket_is_not_measured() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as stranger:
        stranger.sendall(bytes(1 << 16))
        assert rates._receive(listener, b"x" * 16) == 0.0
