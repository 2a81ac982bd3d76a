# SPDX-License-Identifier: Apache-2.0
"""Emulated nodes for tests, and links that lose packets or let no connection through."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
cluster = importlib.import_module("cluster")
_namespaces = importlib.import_module("cluster.namespaces")

#: tc's text of a classic BPF program: ld [random]; jge #SHARE; ret -1 (match); ret 0. Not every kernel has netem.
_RANDOM = 0xFFFFF038
_SHARE = f"4,32 0 0 {_RANDOM},53 1 0 {{share}},6 0 0 4294967295,6 0 0 0"
#: Matches if it is IPv4, TCP, of its flags SYN without ACK, and not to PORT.
_OPENS = (
    "12,40 0 0 12,21 0 9 2048,48 0 0 23,21 0 7 6,177 0 0 14,80 0 0 27,84 0 0 18,21 0 3 2,"
    "72 0 0 16,21 1 0 {port},6 0 0 4294967295,6 0 0 0"
)


def unavailable() -> str | None:
    """Why there can be no cluster here, if so."""
    try:
        cluster.check_available()
    except cluster.ClusterUnavailable as error:
        return str(error)
    return None


def repair(network: Any) -> None:
    """All links as they were at first. What a node still asks for in vain, since its link was cut, would otherwise be
    "No route to host" for who connects in the next moment."""
    forget = ["ip", "neighbour", "flush", "dev", cluster.network.INTERFACE]
    for node in range(len(network.nodes)):
        network.restore(node)
    network.set_rate("1gbit")
    for holder in network.nodes:
        _namespaces.run(cluster.network.on_network(holder, forget))


def lossy(network: Any, node: int, share: float) -> AbstractContextManager[None]:
    """The link of `node` loses a share of the packets, each way, at random."""
    return _dropping(network, node, _SHARE.format(share=min(int(share * 2**32), 2**32 - 1)))


def walled(network: Any, node: int, port: int) -> AbstractContextManager[None]:
    """A firewall: no TCP connection can be opened over the link of `node`, either way, but to `port`."""
    return _dropping(network, node, _OPENS.format(port=port))


@contextmanager
def _dropping(network: Any, node: int, program: str) -> Iterator[None]:
    device = cluster.network.port(node)
    # Sent on to a device that is down is dropped.
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
