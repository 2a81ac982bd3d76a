# SPDX-License-Identifier: Apache-2.0
"""Runs the ranks of a benchmark, on this machine or on an emulated cluster, and reads what rank 0 leaves."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster import EXIT_UNAVAILABLE, ClusterError, ClusterUnavailable, Network, launch_on
from report import parse_names

from hipress.launcher import LaunchOptions, launch

EXIT_PEER_UNAVAILABLE = 3
#: For a whole job to end that has lost its way: far above what any takes (seconds).
_JOB_DEADLINE = 7200.0


class RankFailed(Exception):
    """A rank has ended with an error, and has said which; `code` is its exit code."""

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
    """What rank 0 has written. Raises RankFailed.

    `command` gets the port on which the ranks may meet (0: the environment says where) and the file for the answer.
    Without a network `world` ranks run on this machine. `env`: theirs, on top of this process'.
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
    # One thread for everybody's computing: ranks share the cores.
    env = {"OMP_NUM_THREADS": "1", **(env or {})}
    if network is None:
        code = launch(LaunchOptions(tuple(command), world, env=env, timeout=_JOB_DEADLINE))
    else:
        code = launch_on(network, command, ranks_per_node=ranks_per_node, env=env, timeout=_JOB_DEADLINE)
    if code != 0:
        raise RankFailed(code)


def exit_code(program: str, error: RankFailed | ClusterError) -> int:
    """Says what went wrong; with what the program ends."""
    print(f"{program}: {error}", file=sys.stderr)
    if isinstance(error, RankFailed):
        return error.code
    return EXIT_UNAVAILABLE if isinstance(error, ClusterUnavailable) else 1


def names_of(kind: str, known: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument that names some of what is known, by commas."""

    def parse(text: str) -> list[str]:
        names = parse_names(text)
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{kind} {name!r} does not exist; the {kind}s are {', '.join(known)}")
        return names

    return parse


def free_port() -> int:
    """On the loopback; nobody has it now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
