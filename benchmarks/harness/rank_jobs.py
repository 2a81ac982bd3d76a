# SPDX-License-Identifier: Apache-2.0
"""Runs the ranks of a benchmark, on this machine or on an emulated cluster, and reads rank 0's answer."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.cluster import EXIT_UNAVAILABLE, ClusterError, ClusterUnavailable, Network, launch_on
from hipress.launch.launcher import LaunchOptions, launch

EXIT_PEER_UNAVAILABLE = 3
#: Deadline of a whole job (seconds), far above the duration of any benchmark.
_JOB_DEADLINE = 7200.0


class RankFailed(Exception):
    """A rank has ended with an error, and has printed it; `code` is its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a rank failed (exit code {code}); its output is above")
        self.code = code


def run_job(
    command: Callable[[int, str], tuple[str, ...]],
    network: Network | None,
    *,
    world: int,
    ranks_per_node: int = 1,
    env: Mapping[str, str] | None = None,
) -> str:
    """Runs the ranks to their end, and returns rank 0's answer. Raises RankFailed.

    `command` gets the port where the ranks meet (0: the environment names the address) and the file for the answer.
    Without a network `world` ranks run on this machine. `env`: variables of the ranks in addition to this process'.
    """
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "measured.json")
        words = command(free_port() if network is None else 0, result)
        run_ranks(words, network, world=world, ranks_per_node=ranks_per_node, env=env)
        return Path(result).read_text()


def run_ranks(
    command: Sequence[str],
    network: Network | None,
    *,
    world: int,
    ranks_per_node: int = 1,
    env: Mapping[str, str] | None = None,
) -> None:
    """Runs the ranks to their end. Raises RankFailed."""
    # One compute thread for each rank, because the ranks share the cores.
    env = {"OMP_NUM_THREADS": "1", **(env or {})}
    if network is None:
        code = launch(LaunchOptions(tuple(command), world, env=env, timeout=_JOB_DEADLINE))
    else:
        code = launch_on(network, command, ranks_per_node=ranks_per_node, env=env, timeout=_JOB_DEADLINE)
    if code != 0:
        raise RankFailed(code)


def exit_code(program: str, error: RankFailed | ClusterError) -> int:
    """Prints the error, and returns the exit code of the program."""
    print(f"{program}: {error}", file=sys.stderr)
    if isinstance(error, RankFailed):
        return error.code
    return EXIT_UNAVAILABLE if isinstance(error, ClusterUnavailable) else 1


def free_port() -> int:
    """A free port of the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
