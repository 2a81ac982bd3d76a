# SPDX-License-Identifier: Apache-2.0
"""HiPress finds the interface through which the kernel sends to an address, in a network namespace of the test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SET_UP = """
ip link set lo up
for name in one two three; do
  ip link add $name type veth peer name ${name}_end
  ip link set $name up; ip link set ${name}_end up
done
ip address add 10.1.0.1/24 dev one
ip address add 10.2.0.1/24 dev two
ip address add fd02::1/64 dev two nodad
ip address add 10.1.0.2/24 dev three
ip route add 10.9.0.0/16 via 10.2.0.254
ip rule add from 10.1.0.2 table 77
ip route add 10.1.0.0/24 dev three table 77
"""
ASK = """
import socket
from hipress.network.routes import outgoing
for pair in {pairs!r}:
    index = outgoing(*pair)
    print(index and socket.if_indextoname(index))
"""
#: Source address, destination address, and interface.
WAYS = [
    ("10.1.0.1", "10.1.0.9", "one"),
    ("10.2.0.1", "10.2.0.9", "two"),
    ("10.2.0.1", "10.9.3.3", "two"),
    ("10.1.0.1", "10.9.3.3", "two"),
    ("fd02::1", "fd02::9", "two"),
    # Two devices are in one subnet; a rule chooses by the source address.
    ("10.1.0.2", "10.1.0.9", "three"),
    ("10.1.0.1", "192.0.2.1", "None"),
    ("10.1.0.1", "fd02::9", "None"),
    ("10.1.0.1", "10.2.0.1", "lo"),
]


def test_the_kernel_says_the_way() -> None:
    ask = ASK.format(pairs=[way[:2] for way in WAYS])
    script = f'{SET_UP}\nexec {sys.executable} -c "$ASK"'
    command = ["unshare", "--net", "--map-root-user", "bash", "-euc"]
    if (made := subprocess.run([*command, SET_UP], capture_output=True, text=True, timeout=60.0)).returncode != 0:
        pytest.skip(f"this user cannot make a network namespace: {made.stderr}")
    environment = {**os.environ, "ASK": ask}
    done = subprocess.run([*command, script], env=environment, capture_output=True, text=True, timeout=60.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [way[2] for way in WAYS]
