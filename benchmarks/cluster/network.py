# SPDX-License-Identifier: Apache-2.0
"""A running cluster: starts processes in its nodes and changes its links.

Every node has one device, eth0, whose other end is a port of the bridge in the hub. A link is shaped where packets
enter it: at eth0 for packets that the node sends, at the port for packets that it receives.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .errors import ClusterError
from .namespaces import DEADLINE, find_holder, holders, run
from .rate import queue_arguments

INTERFACE = "eth0"


def address(node: int) -> str:
    """The address of a node. All clusters use the same addresses, because their networks are separate."""
    return f"10.77.0.{node + 1}"


def port(node: int) -> str:
    """The bridge's end of a node's link."""
    return f"port{node}"


def enter(pid: int, command: Sequence[str]) -> list[str]:
    """The command that runs `command` in the node whose holder is `pid`, in the directory of the caller."""
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid"]
    return ["nsenter", "--target", str(pid), *namespaces, f"--wdns={os.getcwd()}", "--", *command]


def on_network(pid: int, command: Sequence[str]) -> list[str]:
    """The command that runs `command` in the network of the holder `pid`, and otherwise in the caller's namespaces."""
    return ["nsenter", "--target", str(pid), "--net", "--", *command]


@dataclass
class Network:
    """A running cluster. `hub` and `nodes`: the processes that hold the hub and the nodes."""

    name: str
    hub: int
    nodes: list[int]

    def popen(
        self, node: int, command: Sequence[str], env: Mapping[str, str] | None = None, **options: object
    ) -> subprocess.Popen[bytes]:
        """Starts a command in a node, with `env` added to this process' environment; `options` are those of
        subprocess.Popen. The command leads a new session; `kill` ends it, or the end of the cluster does."""
        options = {"start_new_session": True, **options}
        environment = {**os.environ, **node_environment(node, len(self.nodes)), **(env or {})}
        return subprocess.Popen(enter(self.holder(node), command), env=environment, **options)  # type: ignore[call-overload,no-any-return]

    @contextlib.contextmanager
    def running(
        self, node: int, command: Sequence[str], env: Mapping[str, str] | None = None, **options: object
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a command inside a `with` statement, and kills it afterwards."""
        process = self.popen(node, command, env, **options)
        with process:
            try:
                yield process
            finally:
                kill(process)

    def set_rate(self, rate: str, node: int | None = None, port_limit: int | None = None) -> None:
        """Changes the rate of a node's link, or of all links, in both directions. Queued packets stay queued.

        `port_limit`: bytes that may wait at a port of the switch, which drops further packets; None: the default."""
        for index in range(len(self.nodes)) if node is None else [node]:
            run(on_network(self.holder(index), ["tc", *queue_arguments(INTERFACE, rate)]))
            run(on_network(self.hub, ["tc", *queue_arguments(port(index), rate, port_limit)]))

    def cut(self, node: int) -> None:
        """Takes a node's link down: packets in both directions are lost without notice."""
        self.holder(node)
        run(on_network(self.hub, ["ip", "link", "set", port(node), "down"]))

    def restore(self, node: int) -> None:
        """Takes a cut link up again."""
        self.holder(node)
        run(on_network(self.hub, ["ip", "link", "set", port(node), "up"]))

    def kill(self) -> None:
        """Ends all processes in the cluster, and so the cluster. Raises ClusterError if this takes too long."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.hub, signal.SIGKILL)
        end = time.monotonic() + DEADLINE
        while any(name.startswith(self.name + "-") for name, _ in holders()):
            if time.monotonic() > end:
                raise ClusterError(f"{self.name} still runs {DEADLINE:g} s after its processes were killed")
            time.sleep(0.01)

    def holder(self, node: int) -> int:
        """The process that holds a node. Raises ClusterError if there is no such node."""
        if not 0 <= node < len(self.nodes):
            raise ClusterError(f"there is no node {node}; {self.name} has nodes 0 to {len(self.nodes) - 1}")
        return self.nodes[node]


def node_environment(node: int, nodes: int) -> dict[str, str]:
    """The environment variables of a process in a node."""
    return {
        "NODE_RANK": str(node),
        "NODE_COUNT": str(nodes),
        "NODE_ADDRESS": address(node),
        "MASTER_ADDR": address(0),
        # Otherwise Gloo asks the name service for the interface of this host.
        "GLOO_SOCKET_IFNAME": INTERFACE,
    }


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of `Network.popen`. process.kill() would end only nsenter, and its child would live on."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def attach(name: str) -> Network:
    """The running cluster of that name, from any process. Raises ClusterError if it does not run."""
    hub = find_holder(f"{name}-hub")
    prefix = f"{name}-node"
    numbered = sorted((int(held.removeprefix(prefix)), pid) for held, pid in holders() if held.startswith(prefix))
    return Network(name, hub, [pid for _, pid in numbered])


def names() -> list[str]:
    """The names of all clusters that run on this machine."""
    return [name.removesuffix("-hub") for name, _ in holders() if name.endswith("-hub")]
