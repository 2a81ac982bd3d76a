# SPDX-License-Identifier: Apache-2.0
"""Emulated hosts for tests, and links that lose packets or refuse connections."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

from benchmarks import cluster
from benchmarks.cluster import namespaces as _namespaces

#: A classic BPF program in tc's notation: ld [random]; jge #SHARE; ret -1 (match); ret 0. Not every kernel has netem.
_RANDOM = 0xFFFFF038
_SHARE = f"4,32 0 0 {_RANDOM},53 1 0 {{share}},6 0 0 4294967295,6 0 0 0"
#: A BPF program that matches TCP packets over IPv4 with SYN but without ACK, except packets to PORT.
_OPENS = (
    "12,40 0 0 12,21 0 9 2048,48 0 0 23,21 0 7 6,177 0 0 14,80 0 0 27,84 0 0 18,21 0 3 2,"
    "72 0 0 16,21 1 0 {port},6 0 0 4294967295,6 0 0 0"
)


def unavailable() -> str | None:
    """The reason why this machine cannot emulate a cluster; None if it can."""
    try:
        cluster.check_available()
    except cluster.ClusterUnavailable as error:
        return str(error)
    return None


def repair(network: Any) -> None:
    """Resets all links. It also clears the neighbour tables: a host that still asks for the address of a host whose
    link was cut would answer the next connection attempt with "No route to host"."""
    forget = ["ip", "neighbour", "flush", "dev", cluster.network.INTERFACE]
    for node in range(len(network.nodes)):
        network.restore(node)
    network.set_rate("1gbit")
    for holder in network.nodes:
        _namespaces.run(cluster.network.on_network(holder, forget))


def lossy(network: Any, node: int, share: float) -> AbstractContextManager[None]:
    """Makes the link of host `node` lose a random share of the packets in each direction."""
    return _dropping(network, node, _SHARE.format(share=min(int(share * 2**32), 2**32 - 1)))


def walled(network: Any, node: int, port: int, device: str = "") -> AbstractContextManager[None]:
    """A firewall: no TCP connection can be opened over the link of host `node` in either direction, except to `port`.
    `device`: the hub's end of another link of that host."""
    return _dropping(network, node, _OPENS.format(port=port), device)


@contextmanager
def second_network(
    network: Any, rate: str, *, nodes: int, names: Mapping[int, str] = MappingProxyType({}), ipv6: bool = False
) -> Iterator[None]:
    """Gives the first `nodes` hosts a second link, to a switch of its own. The device is eth1, or the name that `names`
    has for the host; the addresses are 10.78.0.1/24 or fd78::1/64 and so on. The hub's ends are second0, second1 and so
    on."""
    _on_hub(network, "ip", "link", "add", "bridge1", "type", "bridge", "stp_state", "0", "forward_delay", "0")
    try:
        _on_hub(network, "ip", "link", "set", "bridge1", "up")
        for node in range(nodes):
            name, end, holder = names.get(node, "eth1"), f"second{node}", network.nodes[node]
            pair = ["link", "add", end, "type", "veth", "peer", "name", name, "netns", str(holder)]
            _on_hub(network, "ip", *pair)
            _on_hub(network, "ip", "link", "set", end, "master", "bridge1", "up")
            address = [f"fd78::{node + 1}/64", "nodad"] if ipv6 else [f"10.78.0.{node + 1}/24"]
            on_node(network, node, "ip", "address", "add", "dev", name, *address)
            on_node(network, node, "ip", "link", "set", name, "up")
            on_node(network, node, "tc", *cluster.rate.queue_arguments(name, rate))
            _on_hub(network, "tc", *cluster.rate.queue_arguments(end, rate))
        yield
    finally:
        for node in range(nodes):
            _on_hub(network, "ip", "link", "del", f"second{node}")
        _on_hub(network, "ip", "link", "del", "bridge1")


def on_node(network: Any, node: int, *command: str) -> None:
    """Runs a command in the network namespace of host `node`."""
    _namespaces.run(cluster.network.on_network(network.nodes[node], command))


def sent_bytes(network: Any, node: int, device: str) -> int:
    """The bytes that a device of host `node` has sent, from the kernel's counters."""
    with network.popen(
        node, ["cat", f"/sys/class/net/{device}/statistics/tx_bytes"], stdout=subprocess.PIPE
    ) as process:
        return int(process.communicate(timeout=30.0)[0])


@contextmanager
def _dropping(network: Any, node: int, program: str, device: str = "") -> Iterator[None]:
    device = device or cluster.network.port(node)
    # The kernel drops packets that are redirected to a device that is down.
    drop = ["bpf", "bytecode", program, "action", "mirred", "egress", "redirect", "dev", "sink0"]
    _on_hub(network, "ip", "link", "add", "sink0", "type", "veth", "peer", "name", "sink1")
    try:
        _on_hub(network, "tc", "qdisc", "add", "dev", device, "clsact")
        for way in ("ingress", "egress"):
            _on_hub(network, "tc", "filter", "add", "dev", device, way, *drop)
        yield
    finally:
        _on_hub(network, "tc", "qdisc", "del", "dev", device, "clsact")
        _on_hub(network, "ip", "link", "del", "sink0")


def _on_hub(network: Any, *command: str) -> None:
    _namespaces.run(cluster.network.on_network(network.hub, command))
