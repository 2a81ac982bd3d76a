# SPDX-License-Identifier: Apache-2.0
"""HiPress finds a host's devices in the kernel's files, here simulated, and in UCX's list."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipress._library import load_core
from hipress.network.devices import LOOPBACK, NO_RDMA, Device, Interface, local_devices, rate_text


def files(folder: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text + "\n")


def of(
    folder: Path, interfaces: list[Interface], transports: list[str] | None = None, texts: dict[str, str] | None = None
) -> dict[str, Device]:
    files(folder, texts or {})
    return {device.name: device for device in local_devices(transports, interfaces, folder)}


def test_rates_are_those_of_the_drivers(tmp_path: Path) -> None:
    speeds = {"eth0": "1000", "eth1": "25000", "eth2": "-1", "eth3": "4294967295"}
    interfaces: list[Interface] = [
        (name, "", False, [f"10.{number}.0.1/24"]) for number, name in enumerate([*speeds, "eth4"])
    ]
    found = of(tmp_path, interfaces, None, {f"class/net/{name}/speed": speed for name, speed in speeds.items()})
    assert [device.rate for device in found.values()] == [1000.0, 25000.0, None, None, None]


def test_what_cannot_carry_gradients_has_a_reason(tmp_path: Path) -> None:
    interfaces: list[Interface] = [
        ("lo", "", True, ["127.0.0.1/8"]),
        ("eth0", "is down", False, ["10.0.0.1/24"]),
        ("eth1", "has no carrier", False, ["10.1.0.1/24"]),
        ("eth2", "", False, []),
        ("usb0", "", False, ["169.254.3.1/16", "fe80::1/64"]),
        ("eth3", "", False, ["10.3.0.1/24"]),
        ("eth4", "", False, ["10.4.0.1/24"]),
    ]
    found = of(tmp_path, interfaces, ["tcp/eth4", "posix/memory"])
    assert {name: device.problem for name, device in found.items()} == {
        "lo": LOOPBACK,
        "eth0": "is down",
        "eth1": "has no carrier",
        "eth2": "has no address",
        "usb0": "has link-local addresses only",
        "eth3": "this UCX does not offer it",
        "eth4": "",
    }


def test_the_users_settings_of_ucx_are_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", "posix")
    found = of(tmp_path, [("eth0", "", False, ["10.0.0.1/24"])], ["posix/memory"])
    assert found["eth0"].problem == "UCX does not offer it with UCX_TLS=posix"


@pytest.mark.parametrize(("preferred", "address"), [(None, "10.0.0.1/24"), ("inet6,inet", "fd00::1/64")])
def test_the_address_is_the_one_that_ucx_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preferred: str | None, address: str
) -> None:
    if preferred:
        monkeypatch.setenv("UCX_TCP_AF_PRIO", preferred)
    addresses = ["169.254.1.1/16", "fe80::1/64", "fd00::1/64", "10.0.0.1/24", "10.0.0.2/24"]
    device = of(tmp_path, [("eth0", "", False, addresses)])["eth0"]
    assert device.address == address
    assert address.startswith(device.ip)


def test_infiniband_ports(tmp_path: Path) -> None:
    port = "class/infiniband/mlx5_{}/ports/1/"
    texts: dict[str, str] = {}
    for number, state in enumerate(["4: ACTIVE", "1: DOWN"]):
        texts |= {
            port.format(number) + "state": state,
            port.format(number) + "link_layer": "InfiniBand",
            port.format(number) + "rate": "200 Gb/sec (4X HDR)",
            port.format(number) + "gids/0": "fe80:0000:0000:0001:9803:9b03:0012:3456",
        }
    found = of(tmp_path, [], ["rc_mlx5/mlx5_0:1", "ud_mlx5/mlx5_0:1"], texts)
    assert found["mlx5_0:1"] == Device("mlx5_0:1", "rdma", "", "fe80:0000:0000:0001", 200_000.0)
    assert found["mlx5_1:1"].problem == "is down"
    assert of(tmp_path, [], ["tcp/mlx5_0:1"])["mlx5_0:1"].problem == NO_RDMA


def test_rdma_over_ethernet_has_the_address_of_its_interface(tmp_path: Path) -> None:
    port = "class/infiniband/rocep1/ports/1/"
    texts = {
        port + "state": "4: ACTIVE",
        port + "link_layer": "Ethernet",
        port + "rate": "100 Gb/sec (4X EDR)",
        port + "gid_attrs/ndevs/2": "eth1",
        port + "gid_attrs/ndevs/10": "eth2",
        port + "gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001",
        "class/net/eth1/speed": "100000",
    }
    found = of(tmp_path, [("eth1", "", False, ["10.1.0.1/24"])], ["rc_verbs/rocep1:1", "tcp/eth1"], texts)
    assert [(each.name, each.kind, each.address, each.problem) for each in found.values()] == [
        ("rocep1:1", "rdma", "10.1.0.1/24", ""),
        ("eth1", "tcp", "10.1.0.1/24", ""),
    ]
    without = of(tmp_path, [("eth1", "", False, [])], ["rc_verbs/rocep1:1"])
    assert without["rocep1:1"].problem == "its interface eth1 has no address"


def test_this_host() -> None:
    """This machine's real devices, as the kernel and UCX report them."""
    found = {device.name: device for device in local_devices(load_core().ucx_info()["transports"])}
    assert found["lo"].problem == LOOPBACK
    assert found["lo"].address == "127.0.0.1/8"


@pytest.mark.parametrize(
    ("rate", "text"),
    [(None, "rate unknown"), (10.0, "10 Mbit/s"), (2500.0, "2.5 Gbit/s"), (400_000.0, "400 Gbit/s"), (0.0, "0 Mbit/s")],
)
def test_rates_in_words(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text
