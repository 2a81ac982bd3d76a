# SPDX-License-Identifier: Apache-2.0
"""HIPRESS_NET and init(network=…) select the network that their documentation says."""

from __future__ import annotations

import pytest

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.network.devices import Device
from hipress.network.wanted import Wanted

DEVICES = [
    Device("mlx5_0:1", "rdma", "", "fe80"),
    Device("mlx5_1:1", "rdma", "10.78.0.1/24"),
    Device("eth0", "tcp", "10.77.0.1/24"),
    Device("eth1", "tcp", "10.78.0.1/24"),
    Device("eth2", "tcp", "fd78::1/64"),
    Device("eth3", "tcp"),
]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", ["mlx5_0:1", "mlx5_1:1", "eth0", "eth1", "eth2", "eth3"]),
        ("  ", ["mlx5_0:1", "mlx5_1:1", "eth0", "eth1", "eth2", "eth3"]),
        ("eth1", ["eth1"]),
        ("mlx5_0:1", ["mlx5_0:1"]),
        ("mlx5_0", ["mlx5_0:1"]),
        ("mlx5_0:2", []),
        ("rdma", ["mlx5_0:1", "mlx5_1:1"]),
        ("TCP", ["eth0", "eth1", "eth2", "eth3"]),
        ("10.78.0.0/16", ["mlx5_1:1", "eth1"]),
        ("10.78.0.9/16", ["mlx5_1:1", "eth1"]),
        ("10.77.0.1", ["eth0"]),
        ("fd78::/16", ["eth2"]),
        ("eth0, eth2", ["eth0", "eth2"]),
        ("10.78.0.0/16,eth0,", ["mlx5_1:1", "eth0", "eth1"]),
    ],
)
def test_a_wish_allows(text: str, allowed: list[str]) -> None:
    wanted = Wanted.parse(text)
    assert [device.name for device in DEVICES if wanted.allows(device)] == allowed


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0/8", "fd00::/129", "eth0/1", ","])
def test_a_malformed_wish_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="HIPRESS_NET"):
        Wanted.parse(text)


@pytest.mark.parametrize("wish", ["no_such_device", "10.255.1.0/24", "rdma", "1.2.3.4/99"])
def test_a_rank_alone_is_told_too(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPRESS_NET", raising=False)
    with pytest.raises(InvalidArgument, match=r"rank 0 .*HIPRESS_NET"):
        runtime.init(network=wish)
    assert not runtime.is_initialized()


def test_loopback_may_be_named_where_all_ranks_are_on_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_NET", "lo")
    runtime.init()
    assert runtime.current().options.network == "lo"
    runtime.shutdown()
