# SPDX-License-Identifier: Apache-2.0
"""Runs the ranks of a job in the nodes of a cluster, as `hipress run` does on one machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hipress.launch.launcher import LaunchOptions, launch

from .network import Network

_ENTER_NODE = Path(__file__).with_name("enter_node.py")


def launch_on(
    network: Network,
    command: Sequence[str],
    *,
    ranks_per_node: int = 1,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    prefix: bool = True,
) -> int:
    """Runs `command` as `ranks_per_node` ranks in each node. Returns the exit code of `hipress.launch.launcher.launch`.

    Ranks 0 to ranks_per_node − 1 are in node 0, and so on. Their environment has the variables of `hipress run` and of
    `node_environment`; `MASTER_PORT` is free in node 0.
    """
    nodes = ",".join(map(str, network.nodes))
    wrapper = (sys.executable, str(_ENTER_NODE), str(ranks_per_node), nodes)
    size = ranks_per_node * len(network.nodes)
    return launch(LaunchOptions((*wrapper, *command), size, env=env or {}, timeout=timeout, prefix=prefix))
