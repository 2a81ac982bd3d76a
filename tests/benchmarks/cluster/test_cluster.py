# SPDX-License-Identifier: Apache-2.0
"""benchmarks/cluster gives each host a network of its own and each link its rate, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cluster
from benchmarks.cluster.network import on_network, port

ROOT = Path(__file__).parents[3]

#: Two programs: one sends 20 MB to host 0; the other receives them there and prints the rate in Mbit/s.
SEND = "import socket; socket.create_connection((b'10.77.0.1', 5000)).sendall(bytes(20_000_000))"
RECEIVE = """
import socket, time
with socket.create_server(('10.77.0.1', 5000)) as server:
    print('listening', flush=True)
    stream = server.accept()[0]
start, count = time.monotonic(), 0
while piece := stream.recv(1 << 20):
    count += len(piece)
print(count * 8 / 1e6 / (time.monotonic() - start), flush=True)
"""


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def own(names: list[str], process: int) -> list[str]:
    """The names that belong to the cluster of this process; other clusters may run on this machine."""
    return [name for name in names if f"-{process}-" in name]


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    try:
        cluster.check_available()
    except cluster.ClusterUnavailable as error:
        pytest.skip(str(error))
    with cluster.Cluster(nodes=2, rate="100mbit") as made:
        yield made


def output(network: Any, node: int, *words: str) -> str:
    with network.running(node, words, stdout=subprocess.PIPE) as process:
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        return str(said.decode().strip())


def throughput(network: Any) -> float:
    with network.running(0, [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE) as receiver:
        assert receiver.stdout.readline() == b"listening\n"
        with network.running(1, [sys.executable, "-c", SEND]) as sender:
            assert sender.wait(timeout=60) == 0
            return float(receiver.stdout.readline())


def test_a_node_has_its_own_of_everything_that_could_bypass_the_link(two: Any) -> None:
    assert [output(two, node, "hostname") for node in (0, 1)] == ["node0", "node1"]
    output(two, 0, "touch", "/dev/shm/mine")
    assert output(two, 1, "ls", "/dev/shm") == ""
    assert not Path("/dev/shm/mine").exists()
    for kind in ("net", "uts", "ipc", "pid", "mnt"):
        inside = {output(two, node, "readlink", f"/proc/self/ns/{kind}") for node in (0, 1)}
        assert len(inside | {os.readlink(f"/proc/self/ns/{kind}")}) == 3, kind


ECHO = """
import socket, sys
with socket.create_server(('10.77.0.1', 5001)) as server:
    print('listening', flush=True)
    stream = server.accept()[0]
while piece := stream.recv(1 << 20):
    stream.sendall(piece)
"""
#: Prints the shortest of ten round trips of one byte, in milliseconds.
PING = """
import socket, time
stream = socket.create_connection(('10.77.0.1', 5001))
times = []
for _ in range(10):
    start = time.monotonic()
    stream.sendall(b'.')
    stream.recv(1)
    times.append(time.monotonic() - start)
print(1000 * min(times))
"""


def test_a_round_trip_takes_as_long_as_asked_and_the_rate_stays() -> None:
    try:
        late = cluster.Cluster(nodes=2, rate="100mbit", round_trip_ms=40)
    except cluster.ClusterUnavailable as error:
        pytest.skip(str(error))
    with late:
        with late.running(0, [sys.executable, "-c", ECHO], stdout=subprocess.PIPE) as echo:
            assert echo.stdout.readline() == b"listening\n"
            assert 40 <= float(output(late, 1, sys.executable, "-c", PING)) < 60
        assert 50 < throughput(late) < 100  # TCP's slow start takes a part of the time
    lines = subprocess.run(["pgrep", "-f", f"delay_line .*{late.hub}/ns/net"], capture_output=True, text=True)
    assert lines.stdout == ""


@pytest.mark.parametrize("milliseconds", [-1, 3000, float("nan")])
def test_a_round_trip_that_is_none_is_refused(milliseconds: float) -> None:
    with pytest.raises(cluster.ClusterError, match="round trip"):
        cluster.Cluster(nodes=2, rate="100mbit", round_trip_ms=milliseconds)


def test_a_switch_can_have_queues_that_overflow() -> None:
    try:
        shallow = cluster.Cluster(nodes=2, rate="100mbit", port_limit=70_000)
    except cluster.ClusterUnavailable as error:
        pytest.skip(str(error))
    with shallow:
        on_port = on_network(shallow.hub, ["tc", "-raw", "qdisc", "show", "dev", port(1)])
        assert " limit 70000b " in subprocess.run(on_port, capture_output=True, text=True, check=True).stdout
        # The queue of a node's own packets is that of all clusters: only the switch drops.
        assert output(shallow, 1, "tc", "-raw", "qdisc", "show", "dev", "eth0").endswith(" limit 1Mb")


@pytest.mark.parametrize(("rate", "limit"), [("1gbit", 1500), ("1gbit", -1), ("none", 1 << 20)])
def test_a_queue_that_a_port_cannot_have_is_refused(rate: str, limit: int) -> None:
    with pytest.raises(cluster.ClusterError, match="queue"):
        cluster.Cluster(nodes=2, rate=rate, port_limit=limit)


def test_a_command_finds_its_place_in_its_environment(two: Any) -> None:
    said = output(two, 1, "sh", "-c", "echo $NODE_RANK $NODE_COUNT $NODE_ADDRESS $MASTER_ADDR $GLOO_SOCKET_IFNAME; pwd")
    assert said.splitlines() == ["1 2 10.77.0.2 10.77.0.1 eth0", os.getcwd()]


@pytest.mark.slow
def test_links_have_their_rate_and_it_can_be_changed(two: Any) -> None:
    assert 80 < throughput(two) < 100  # payload is 95.6 % of the rate; a busy machine reaches less
    two.set_rate("50mbit", node=1)
    try:
        assert 40 < throughput(two) < 50
    finally:
        two.set_rate("100mbit")


def test_a_cut_link_carries_nothing_until_it_is_restored(two: Any) -> None:
    reach = [sys.executable, "-c", "import socket; socket.create_connection(('10.77.0.1', 1))"]
    two.cut(1)
    try:
        with two.running(1, ["timeout", "0.5", *reach]) as process:
            assert process.wait(timeout=30) == 124  # the host does not even answer with a refusal
    finally:
        two.restore(1)
    with two.running(1, reach, stderr=subprocess.PIPE) as process:
        assert b"ConnectionRefused" in process.communicate(timeout=30)[1]


def test_two_clusters_do_not_meet(two: Any) -> None:
    with cluster.Cluster(nodes=1, rate="none") as other:
        assert own(cluster.names(), os.getpid()) == [two.name, other.name]
        assert output(other, 0, "hostname") == "node0"
    assert own(cluster.names(), os.getpid()) == [two.name]


def test_processes_end_with_their_cluster() -> None:
    with cluster.Cluster(nodes=1, rate="none") as made:
        process = made.popen(0, ["sleep", "100"])
    assert process.wait(timeout=10) != 0


def heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_cluster_ends_with_the_process_that_holds_it(two: Any, number: int) -> None:
    up = [sys.executable, "-m", "benchmarks.cluster", "up", "--nodes", "2", "--rate", "1gbit"]
    # If a shell runs the tests in the background, they ignore SIGINT, and their child processes inherit that.
    with subprocess.Popen(up, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts) as holder:
        try:
            assert holder.stdout is not None
            name = holder.stdout.readline().strip()
            assert own(cluster.names(), holder.pid) == [name]
            holder.send_signal(number)
            holder.wait(timeout=30)
        finally:
            holder.kill()
    end = time.monotonic() + 10
    while own(cluster.names(), holder.pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_command_line_works_on_a_running_cluster(two: Any) -> None:
    assert two.name in command("list").stdout
    assert command("exec", two.name, "1", "--", "hostname").stdout == "node1\n"
    assert command("rate", two.name, "none", "--node", "1").returncode == 0
    assert command("rate", two.name, "100mbit").returncode == 0
    assert command("cut", two.name, "0").returncode == 0
    assert command("restore", two.name, "0").returncode == 0
    done = command("exec", two.name, "7", "hostname")
    assert (done.returncode, done.stderr) == (1, f"cluster: there is no node 7; {two.name} has nodes 0 to 1\n")


def test_run_and_down(two: Any) -> None:
    done = command("run", "--nodes", "2", "--rate", "1gbit", "--", "sh", "-c", "echo $HIPRESS_RANK on $(hostname)")
    assert sorted(done.stdout.splitlines()) == ["[0] 0 on node0", "[1] 1 on node1"]
    assert command("run", "--nodes", "1", "--rate", "none", "--", "sh", "-c", "exit 5").returncode == 5
    with cluster.Cluster(nodes=1, rate="none") as made:
        assert command("down", made.name).returncode == 0
        assert made.name not in cluster.names()
    assert "does not run" in command("down", made.name).stderr


def test_who_cannot_have_a_cluster_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(cluster.ClusterUnavailable, match="needs ip and tc"):
        cluster.check_available()
    monkeypatch.undo()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cluster", "up", "--nodes", "2", "--rate", "1gbit"],
        cwd=ROOT,
        env={**os.environ, "PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == cluster.EXIT_UNAVAILABLE == 77
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rate", ["", "1", "fast", "1gbps", "-1mbit", "10kbit"])
def test_what_is_no_rate(rate: str) -> None:
    with pytest.raises(cluster.ClusterError, match="is not a rate"):
        cluster.bits_per_second(rate)


def test_rates() -> None:
    assert [cluster.bits_per_second(rate) for rate in ("1gbit", "2.5Mbit", "none")] == [10**9, 2_500_000, None]
