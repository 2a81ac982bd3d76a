# SPDX-License-Identifier: Apache-2.0
"""Emulated nodes on one machine, joined by a switch over links of a given rate.

A node has its own network, host name, process numbers, System V IPC and mounts, with a private /dev/shm and /etc/hosts,
so no transport can bypass the link. The nodes share the files, cores and memory of the machine. The switch is a bridge
in a separate namespace, the hub; the machine's own network does not change.
"""

from __future__ import annotations

import itertools
import os
import shutil
from types import TracebackType

from .delay import DelayLines, check_round_trip
from .errors import ClusterError, ClusterUnavailable
from .namespaces import Holder, run, start_holder
from .network import INTERFACE, Network, address, on_network, port
from .rate import bits_per_second, check_port_limit

MAX_NODES = 64
PROGRAMS = ("ip", "tc", "nsenter", "unshare", "mount")
_PACKET_BYTES = "1500"

#: "cat" ends when the other end of its standard input is closed, and only the cluster's owner has that end. So the
#: first process ends with its owner, and with it the whole cluster (the nodes' processes are its descendants).
_HUB = """\
set -e
ip link set lo up
ip link add bridge0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
ip link set bridge0 up
echo ready
cat > /dev/null
"""

#: The sysctls apply to all measured systems: streams do not restart slowly after a pause between steps, and do not
#: inherit metrics of earlier streams; buffers may become larger than every rate needs.
_NODE = """\
set -e
echo "$1" > /proc/sys/kernel/hostname
mount -t tmpfs -o size=50% tmpfs /dev/shm
echo "$2" > /dev/shm/hosts
mount --bind /dev/shm/hosts /etc/hosts
rm /dev/shm/hosts
mount -t sysfs sysfs /sys
ip link set lo up
cd /proc/sys/net/ipv4
echo 0 > tcp_slow_start_after_idle
echo 1 > tcp_no_metrics_save
echo "4096 131072 67108864" > tcp_rmem
echo "4096 65536 67108864" > tcp_wmem
cd /
echo ready
sleep infinity & wait
"""

_numbers = itertools.count()


class Cluster(Network):
    """`with Cluster(nodes=4, rate="1gbit") as cluster: cluster.popen(0, ["hostname"]).wait()`

    The cluster ends with the `with` statement, or with this process, however the process ends. Raises
    ClusterUnavailable if this machine cannot have a cluster, ClusterError for wrong arguments.

    `round_trip_ms`: shortest time of a packet from node to node and back (milliseconds); 0: no added delay.
    `port_limit`: bytes that may wait at a port of the switch, which drops further packets; None: 1 MiB or more.
    """

    def __init__(self, nodes: int, rate: str, round_trip_ms: float = 0.0, port_limit: int | None = None) -> None:
        if not 1 <= nodes <= MAX_NODES:
            raise ClusterError(f"a cluster of {nodes} nodes cannot be made; expected 1 to {MAX_NODES}")
        bits_per_second(rate)
        check_round_trip(round_trip_ms)
        check_port_limit(port_limit, rate)
        check_available()
        # The process number distinguishes clusters that run at once.
        super().__init__(f"hipress-cluster-{os.getpid()}-{next(_numbers)}", 0, [])
        self._count = nodes
        self._rate = rate
        self._port_limit = port_limit
        self._holders: list[Holder] = []
        self._round_trip_ms = round_trip_ms
        self._lines: DelayLines | None = None

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes in the cluster, and so the cluster."""
        holders, self._holders = self._holders, []
        for holder in holders:  # the nodes' processes end with the hub
            holder.end()
        if self._lines is not None:
            self._lines.end()
            self._lines = None

    def wait(self) -> None:
        """Waits without a deadline until another process ends the cluster."""
        self._holders[0].process.wait()

    def _start(self) -> None:
        hub = start_holder([], ["--net"], _HUB, f"{self.name}-hub")
        self._holders.append(hub)
        self.hub = hub.pid
        if self._round_trip_ms:
            self._lines = DelayLines(self._round_trip_ms)
        for node in range(self._count):
            self._start_node(node)
        self.set_rate(self._rate, port_limit=self._port_limit)

    def _start_node(self, node: int) -> None:
        # In the hub's PID namespace, so that the node ends with the hub's first process.
        inside = ["nsenter", "--target", str(self.hub), "--net", "--mount", "--pid", "--"]
        # Dual-stack sockets have the second form; without it a reverse lookup would ask a name server in vain.
        addresses = [f"{form}{address(index)} node{index}" for form in ("", "::ffff:") for index in range(self._count)]
        lines = ["127.0.0.1 localhost", *addresses]
        own = ["--net", "--uts", "--ipc"]
        holder = start_holder(inside, own, _NODE, f"{self.name}-node{node}", f"node{node}", "\n".join(lines))
        self._holders.append(holder)
        self.nodes.append(holder.pid)
        end = port(node)
        if self._lines is None:
            pair = ["link", "add", end, "mtu", _PACKET_BYTES, "type", "veth"]
            peer = ["peer", "name", INTERFACE, "mtu", _PACKET_BYTES, "netns", str(holder.pid)]
            run(on_network(self.hub, ["ip", *pair, *peer]))
        else:
            self._lines.start(self.hub, end, holder.pid, INTERFACE)
            for pid, device in ((self.hub, end), (holder.pid, INTERFACE)):
                # On a busy machine a line may read late; until then its device holds this many packets.
                run(on_network(pid, ["ip", "link", "set", device, "mtu", _PACKET_BYTES, "txqueuelen", "10000"]))
        run(on_network(self.hub, ["ip", "link", "set", end, "master", "bridge0", "up"]))
        run(on_network(holder.pid, ["ip", "address", "add", f"{address(node)}/24", "dev", INTERFACE]))
        run(on_network(holder.pid, ["ip", "link", "set", INTERFACE, "up"]))
        # The algorithm is set per route, because outside the first network namespace the sysctl refuses some
        # algorithms. It is cubic, because bbr, the default of some systems, retransmits heavily on such links.
        route = ["10.77.0.0/24", "dev", INTERFACE, "scope", "link", "src", address(node), "congctl", "cubic"]
        run(on_network(holder.pid, ["ip", "route", "replace", *route]))


def check_available() -> None:
    """Raises ClusterUnavailable with the missing requirement if this machine or this user cannot have clusters."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise ClusterUnavailable(
            f"an emulated cluster needs {' and '.join(missing)}; install iproute2 and util-linux (Linux only)"
        )
    if os.geteuid() != 0:
        raise ClusterUnavailable("an emulated cluster needs root, for namespaces and links; run it with sudo")
    try:
        run(["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc", "true"])
    except ClusterError as error:
        raise ClusterUnavailable(f"this system allows no new namespaces, perhaps as a container: {error}") from error
