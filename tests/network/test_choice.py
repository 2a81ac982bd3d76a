# SPDX-License-Identifier: Apache-2.0
"""HiPress finds the networks that join all hosts, and chooses one. The hosts are simulated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from hipress.network.choice import Host, Network, contenders, decide, networks
from hipress.network.devices import Device


def tcp(name: str, address: str, rate: float | None = None, leads: Sequence[str] = ()) -> Device:
    """An interface that leads to its own subnet and to the subnets in `leads`."""
    device = Device(name, "tcp", address, "", rate)
    return replace(device, leads=frozenset({device.subnet, *leads}))


def infiniband(name: str, rate: float = 200_000.0, fabric: str = "fe80:0000:0000:0001") -> Device:
    return Device(name, "rdma", "", fabric, rate)


def hosts(*devices: Sequence[Device], met_at: Sequence[str] = ()) -> list[Host]:
    """Hosts with two ranks each."""
    met = met_at or [""] * len(devices)
    return [Host(f"node{number}", 2 * number, tuple(each), met[number]) for number, each in enumerate(devices)]


def names(found: Sequence[Network]) -> list[list[str]]:
    return [[device.name for device in network.devices] for network in found]


def test_the_faster_of_two_ethernets_comes_first() -> None:
    found = networks(
        hosts(*([tcp("eth0", f"10.0.0.{n}/24", 1000), tcp("eth1", f"10.1.0.{n}/24", 25000)] for n in (1, 2, 3)))
    )
    assert names(found) == [["eth1"] * 3, ["eth0"] * 3]
    assert contenders(found) == found[:1]
    assert found[0].rate == 25000


def test_rdma_comes_before_faster_tcp() -> None:
    found = networks(
        hosts(*([tcp("eth0", f"10.0.0.{n}/24", 400_000), infiniband("mlx5_0:1", 100_000)] for n in (1, 2)))
    )
    assert [network.kind for network in found] == ["rdma", "tcp"]
    assert names(contenders(found)) == [["mlx5_0:1"] * 2]


def test_all_of_the_fastest_rdma_ports_are_taken() -> None:
    ports = [infiniband("mlx5_0:1"), infiniband("mlx5_1:1"), infiniband("mlx4_0:1", 40_000.0)]
    assert names(contenders(networks(hosts(ports, ports)))) == [["mlx5_0:1"] * 2, ["mlx5_1:1"] * 2]


def test_ports_of_different_fabrics_do_not_reach_each_other() -> None:
    one = [infiniband("mlx5_0:1", fabric="a"), infiniband("mlx5_1:1", fabric="b")]
    other = [infiniband("mlx5_0:1", fabric="b"), infiniband("mlx5_1:1", fabric="c")]
    assert names(networks(hosts(one, other))) == [["mlx5_1:1", "mlx5_0:1"]]


def test_rdma_over_ethernet_needs_a_way_as_tcp_does() -> None:
    def roce(host: int, subnet: int) -> Device:
        device = Device("mlx5_0:1", "rdma", f"10.{subnet}.0.{host}/24", "", 100_000.0)
        return replace(device, leads=frozenset({device.subnet}))

    assert names(networks(hosts([roce(1, 1)], [roce(2, 1)]))) == [["mlx5_0:1"] * 2]
    assert networks(hosts([roce(1, 1)], [roce(2, 2)])) == []


def test_a_device_that_one_host_lacks_is_not_taken() -> None:
    fast = [tcp("eth0", "10.0.0.1/24", 1000), tcp("eth1", "10.1.0.1/24", 25000), infiniband("mlx5_0:1")]
    assert names(networks(hosts(fast, [tcp("eth0", "10.0.0.2/24", 1000)]))) == [["eth0"] * 2]


def test_names_may_differ() -> None:
    found = networks(
        hosts(
            [tcp("eth0", "10.0.0.1/24", 1000), tcp("eth1", "10.1.0.1/24", 25000)],
            [tcp("eth1", "10.0.0.2/24", 1000), tcp("ens5f0", "10.1.0.2/24", 25000)],
        )
    )
    assert names(found) == [["eth1", "ens5f0"], ["eth0", "eth1"]]


def test_bridges_with_the_same_address_everywhere_are_not_taken() -> None:
    found = networks(
        hosts(*([tcp("docker0", "172.17.0.1/16", 10_000), tcp("eth0", f"10.0.0.{n}/24", 1000)] for n in (1, 2, 3)))
    )
    assert names(found) == [["eth0"] * 3]


def test_two_of_three_hosts_with_one_address_are_no_network() -> None:
    addresses = ["10.9.0.1/24", "10.9.0.2/24", "10.9.0.2/24"]
    assert networks(hosts(*([tcp("virbr1", address)] for address in addresses))) == []


def test_ipv6_alone_will_do() -> None:
    assert names(networks(hosts(*([tcp("eth0", f"fd00::{n}/64", 1000)] for n in (1, 2))))) == [["eth0"] * 2]


def test_subnets_that_are_joined_by_routes_are_one_network() -> None:
    """Each host has its own subnets, and each kernel reaches the other hosts' subnets through the right device."""
    racks = range(1, 5)
    slow, fast = [f"10.0.{rack}.0/24" for rack in racks], [f"10.1.{rack}.0/24" for rack in racks]
    found = networks(
        hosts(
            *(
                [tcp("eth0", f"10.0.{rack}.7/24", 1000, slow), tcp("eth1", f"10.1.{rack}.7/24", 10_000, fast)]
                for rack in racks
            )
        )
    )
    assert names(found) == [["eth1"] * 4, ["eth0"] * 4]


def test_a_subnet_that_is_reached_through_another_device_is_not_taken() -> None:
    """Container bridges have a subnet per host; the default route leads to the other hosts' subnets, and the bridge
    does not."""
    everything = [f"10.244.{host}.0/24" for host in (1, 2)]
    found = networks(
        hosts(
            *(
                [tcp("cni0", f"10.244.{host}.1/24", 10_000), tcp("eth0", f"10.0.0.{host}/24", 1000, everything)]
                for host in (1, 2)
            )
        )
    )
    assert names(found) == [["eth0"] * 2]


def test_of_two_devices_in_one_subnet_only_that_of_the_route_is_taken() -> None:
    second = replace(tcp("eth1", "10.0.0.101/24", 1000), leads=frozenset())
    others = replace(tcp("eth1", "10.0.0.102/24", 1000), leads=frozenset())
    found = networks(hosts([tcp("eth0", "10.0.0.1/24", 1000), second], [tcp("eth0", "10.0.0.2/24", 1000), others]))
    assert names(found) == [["eth0"] * 2]


def test_a_network_that_two_hosts_cannot_use_with_each_other_is_none() -> None:
    """The second and the third host reach the first host, but not each other."""
    first = tcp("eth0", "10.0.1.1/24", None, ["10.0.2.0/24", "10.0.3.0/24"])
    others = [tcp("eth0", f"10.0.{n}.1/24", None, ["10.0.1.0/24"]) for n in (2, 3)]
    assert networks(hosts([first], *([other] for other in others))) == []


def test_equal_and_unknown_rates_are_to_be_measured() -> None:
    def pair(host: int) -> list[Device]:
        rates = [10_000.0, None, 10_000.0, 1000.0]
        return [tcp(f"eth{number}", f"10.{number}.0.{host}/24", rate) for number, rate in enumerate(rates)]

    assert [each[0] for each in names(contenders(networks(hosts(pair(1), pair(2)))))] == ["eth0", "eth2", "eth1"]


def test_a_network_is_as_fast_as_its_slowest_device() -> None:
    found = networks(
        hosts(
            [tcp("eth0", "10.0.0.1/24", 10_000), tcp("eth1", "10.1.0.1/24", 25_000)],
            [tcp("eth0", "10.0.0.2/24", 10_000), tcp("eth1", "10.1.0.2/24", 1000)],
        )
    )
    assert names(found) == [["eth0"] * 2, ["eth1"] * 2]


def test_the_network_where_ranks_met_stays_unless_another_is_clearly_faster() -> None:
    both = hosts(
        *([tcp("eth0", f"10.0.0.{n}/24"), tcp("eth1", f"10.1.0.{n}/24")] for n in (1, 2)),
        met_at=["10.0.0.1", "10.0.0.2"],
    )
    found = networks(both)
    assert found[decide(both, found, {0: 900.0, 1: 1000.0})].devices[0].name == "eth0"
    assert found[decide(both, found, {0: 900.0, 1: 2400.0})].devices[0].name == "eth1"
    assert found[decide(both, found, {1: 10.0})].devices[0].name == "eth1"


def test_a_thousand_hosts_take_no_time() -> None:
    """The hosts are in one subnet, or each host has a subnet of its own."""
    flat = hosts(
        *(
            [
                infiniband("mlx5_0:1"),
                tcp("docker0", "172.17.0.1/16"),
                tcp("eth0", f"10.0.{n // 250}.{n % 250}/16", 1000),
                tcp("eth1", f"10.1.{n // 250}.{n % 250}/16", 25_000),
            ]
            for n in range(1000)
        )
    )
    subnets = [f"10.{n // 250}.{n % 250}.0/31" for n in range(1000)]
    routed = hosts(*([tcp("eth0", subnet, 1000, subnets)] for subnet in subnets))
    start = time.process_time()
    assert [network.kind for network in networks(flat)] == ["rdma", "tcp", "tcp"]
    assert len(networks(routed)) == 1
    assert time.process_time() - start < 2.0
