# SPDX-License-Identifier: Apache-2.0
"""`hipress.runtime` reports a process's place among the hosts, under every launcher."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from hipress import runtime
from hipress.errors import NotInitialized
from tests.launch.conftest import PATIENCE, clean_environment

_PRINT_PLACE = """
from hipress import runtime as r
r.init()
print(r.rank(), r.size(), r.local_rank(), r.local_size(), r.cross_rank(), r.cross_size())
"""


def test_two_machines_with_unequally_many_ranks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"HIPRESS_SIZE": "3", "HIPRESS_RENDEZVOUS": f"127.0.0.1:{port}", "HIPRESS_JOB_TOKEN": "secret"}
    local_places = [("0", "2"), ("1", "2"), ("0", "1")]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", _PRINT_PLACE],
            env=clean_environment()
            | common
            | {"HIPRESS_RANK": str(rank), "HIPRESS_LOCAL_RANK": local_rank, "HIPRESS_LOCAL_SIZE": local_size},
            stdout=subprocess.PIPE,
        )
        for rank, (local_rank, local_size) in enumerate(local_places)
    ]
    printed = [rank.communicate(timeout=PATIENCE)[0].decode().strip() for rank in ranks]
    # Each line has rank, size, local rank, local size, cross rank and cross size; only the first host has a local rank
    # 1.
    assert printed == ["0 3 0 2 0 2", "1 3 1 2 0 1", "2 3 0 1 1 2"]


def test_before_init_there_is_no_place() -> None:
    for question in (runtime.rank, runtime.size, runtime.local_rank, runtime.cross_rank, runtime.cross_size):
        with pytest.raises(NotInitialized):
            question()
