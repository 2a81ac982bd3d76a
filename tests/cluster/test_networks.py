# SPDX-License-Identifier: Apache-2.0
"""Hosts with two networks: the ranks meet over the slow network, and gradients travel over the fast network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fault_job import FaultJob, Session
from tests.cluster.nodes import on_node, second_network, sent_bytes, walled

pytestmark = pytest.mark.slow

#: One gradient of a megabyte; each rank sends half of it per step.
SIZES, STEPS = (250_000,), 8
ALL_STEPS = STEPS * 500_000
#: A container bridge with the same address on every host, one container's device, and a bridge that is down.
USELESS = [
    "ip link add docker0 type bridge",
    "ip link add inside type veth peer name container",
    "ip link set inside master docker0",
    "ip link set inside up",
    "ip link set container up",
    "ip address add 172.17.0.1/16 dev docker0",
    "ip link set docker0 up",
    "ip link add unused type bridge",
    "ip address add {address} dev unused",
]


def session(**options: Any) -> Session:
    return Session(range(2), sizes=SIZES, steps=STEPS, **{"timeout": 20.0, **options})


def train(nodes: Any, folder: Path, given: Session, names: tuple[str, str] = ("eth1", "eth1")) -> tuple[str, list[int]]:
    """What rank 0 printed, and the bytes that each host has sent over its second device."""
    before = [sent_bytes(nodes, node, name) for node, name in enumerate(names)]
    with FaultJob(folder, given, nodes) as job:
        for rank in range(2):
            job.fact(rank, "over", 60.0)
        return job.log(0), [sent_bytes(nodes, node, name) - before[node] for node, name in enumerate(names)]


def test_gradients_take_the_faster_network(nodes: Any, tmp_path: Path) -> None:
    """The drivers report the same rate for both networks, the bridges have the same address on all hosts, and a third
    device is down."""
    nodes.set_rate("100mbit")
    with second_network(nodes, "1gbit", nodes=2, names={1: "fast0"}):
        for command in USELESS:
            for node in range(2):
                on_node(nodes, node, *command.format(address=f"10.79.0.{node + 1}/24").split())
        try:
            slow = [sent_bytes(nodes, node, "eth0") for node in range(2)]
            said, fast = train(nodes, tmp_path, session(), ("eth1", "fast0"))
            slow = [sent_bytes(nodes, node, "eth0") - slow[node] for node in range(2)]
        finally:
            for node in range(2):
                for device in ("docker0", "inside", "unused"):
                    on_node(nodes, node, "ip", "link", "del", device)
    (line,) = [line for line in said.splitlines() if line.startswith("hipress: gradients take")]
    assert line.startswith("hipress: gradients take eth1 (tcp, 10.78.0.1/24, 10 Gbit/s, ")
    assert "on other hosts fast0" in line
    assert "; not eth0 (tcp, 10.77.0.1/24, 10 Gbit/s, " in line
    assert "docker0" not in line
    assert "unused" not in line
    assert min(fast) > ALL_STEPS
    # The slow network carries the rate measurement (a fifth of a second at 100 Mbit/s) and the control connection.
    assert max(slow) < ALL_STEPS


@pytest.mark.parametrize(("wish", "taken"), [("eth0", 0), ("10.77.0.0/16", 0), ("tcp,fd78::/16", 1), ("eth1,rdma", 1)])
def test_the_user_names_the_network(nodes: Any, tmp_path: Path, wish: str, taken: int) -> None:
    """The user can name the network; the second network has IPv6 addresses only."""
    nodes.set_rate("100mbit")
    with second_network(nodes, "1gbit", nodes=2, ipv6=True):
        said, fast = train(nodes, tmp_path, session(variables={"HIPRESS_NET": wish}))
    assert f"(HIPRESS_NET={wish})" in said
    assert (min(fast) > ALL_STEPS) == bool(taken)


def test_ucx_variables_win(nodes: Any, tmp_path: Path) -> None:
    with second_network(nodes, "1gbit", nodes=2):
        variables = {"HIPRESS_NET": "eth0", "UCX_NET_DEVICES": "eth1"}
        said, fast = train(nodes, tmp_path, session(variables=variables))
    assert "gradients take UCX_NET_DEVICES=eth1, the environment's choice" in said
    assert min(fast) > ALL_STEPS


@pytest.mark.parametrize("wish", ["eth7", "rdma", "10.99.0.0/16", "10.99.0.0/77", "lo", ","])
def test_a_wrong_name_is_an_error_that_lists_what_is_there(nodes: Any, tmp_path: Path, wish: str) -> None:
    with FaultJob(tmp_path, session(variables={"HIPRESS_NET": wish}), nodes) as job:
        for rank in range(2):
            error = job.fact(rank, "error", 30.0)
            assert error["kind"] == "InvalidArgument"
            assert "HIPRESS_NET" in error["message"]
            if wish not in ("10.99.0.0/77", ","):
                assert "eth0 (10.77.0.1/24, 10 Gbit/s)" in error["message"]


@pytest.mark.parametrize("named", [False, True], ids=["measured", "named"])
def test_a_firewall_on_the_fast_network_is_an_error_that_says_what_to_do(
    nodes: Any, tmp_path: Path, named: bool
) -> None:
    variables = {"HIPRESS_NET": "eth1,eth0"} if not named else {"HIPRESS_NET": "eth1"}
    given = session(timeout=6.0, variables=variables)
    with (
        second_network(nodes, "1gbit", nodes=2),
        walled(nodes, 0, 1, "second1"),
        FaultJob(tmp_path, given, nodes) as job,
    ):
        for rank in range(2):
            error = job.fact(rank, "error", 30.0)
            assert error["kind"] == "TransportError"
            for word in (f"rank {1 - rank}", "eth1", "10.78.0.", "firewall", "HIPRESS_NET"):
                assert word in error["message"]
            assert named or "HIPRESS_NET=eth0" in error["message"]


def test_a_firewall_on_the_network_where_ranks_meet_does_not_matter(nodes: Any, tmp_path: Path) -> None:
    given = session(delays={0: 1.0, 1: 1.0})
    with second_network(nodes, "1gbit", nodes=2), FaultJob(tmp_path, given, nodes) as job:
        with walled(nodes, 0, int(job.places[0].split(":")[1])):
            for rank in range(2):
                job.fact(rank, "over", 60.0)
        assert "hipress: gradients take eth1" in job.log(0)
