# SPDX-License-Identifier: Apache-2.0
"""A rank that cannot use its network interface reports the interface and the reason. Each test has a network namespace
of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

NETWORK = ["unshare", "--net", "--map-root-user"]
#: Makes an interface without a carrier and an interface that is down, each with an address.
SET_UP = """
ip link set lo up
ip link add unplugged type veth peer name other
ip address add 10.9.1.1/24 dev unplugged
ip link set unplugged up
ip link add off type veth peer name another
ip address add 10.9.2.1/24 dev off
"""
START = """
from hipress import _core
from hipress.errors import HipressError
try:
    {call}
except HipressError as error:
    print(type(error).__name__, error)
"""


def in_network(command: str) -> subprocess.CompletedProcess[str]:
    script = ["bash", "-euc", SET_UP + command]
    return subprocess.run([*NETWORK, *script], capture_output=True, text=True, timeout=60.0, check=False)


@pytest.fixture(autouse=True, scope="module")
def _possible() -> None:
    if (made := in_network("true")).returncode != 0:
        pytest.skip(f"this user cannot make a network namespace: {made.stderr}")


def said(call: str) -> str:
    """The output of a rank that makes this call."""
    done = in_network(f"exec {sys.executable} -c '{START.format(call=call)}'")
    assert done.returncode == 0, done.stderr
    return done.stdout


def join(address: str) -> str:
    return said(f'_core.connect_control(rank=1, world_size=2, host="{address}", port=1, token="", timeout=0.5)')


def start(address: str) -> str:
    return said(f'_core.connect_engine(_core.make_local_control(1)[0], "{address}", {{}})')


def test_who_cannot_join_names_its_interface() -> None:
    message = join("10.9.1.2")
    assert message.startswith("Timeout rank 1 could not join rank 0 at 10.9.1.2 port 1 within 0.5 s")
    assert "The network interface unplugged, which leads there, has no carrier: repair it" in message


def test_who_has_no_way_to_rank_0_names_what_is_down() -> None:
    message = join("10.9.2.2")
    assert "No network interface of this machine leads there" in message
    assert "off is down" in message


def test_who_has_a_way_suspects_rank_0() -> None:
    assert "Check that rank 0 was started" in join("127.0.0.1")


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("10.9.1.1", "the network interface unplugged (10.9.1.1), by which this rank is connected with rank 0, has no"),
        ("10.9.2.1", "the network interface off (10.9.2.1), by which this rank is connected with rank 0, is down"),
        ("10.9.3.1", "no network interface has the address 10.9.3.1 any more"),
    ],
)
def test_an_interface_that_fails_after_ranks_have_met_is_named(address: str, wrong: str) -> None:
    message = start(address)
    assert message.startswith(f"TransportError rank 0: {wrong}")
