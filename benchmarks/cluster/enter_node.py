# SPDX-License-Identifier: Apache-2.0
"""Runs between the launcher and a rank: it enters the rank's node and becomes the rank's command.

    python enter_node.py RANKS_PER_NODE PID,PID,... COMMAND...

PID: the process that holds a node.
"""

import contextlib
import os
import sys
from pathlib import Path

# Python adds only the script's own folder to the path.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.cluster.network import address, enter, node_environment

#: The port of the rendezvous; it is free in every node.
_RENDEZVOUS_PORT = 29400
_MASTER_PORT = 29500


def main() -> None:
    """Becomes the rank's command; it does not return."""
    ranks_per_node, nodes, command = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    rank = int(os.environ["HIPRESS_RANK"])
    node = rank // ranks_per_node
    # Nodes cannot reach the launcher's socket in the machine's network; rank 0 binds the address below.
    listener = os.environ.pop("HIPRESS_RENDEZVOUS_FD", None)
    if listener is not None:
        with contextlib.suppress(OSError):
            os.close(int(listener))
    os.environ.update(node_environment(node, len(nodes)))
    os.environ.update(
        HIPRESS_LOCAL_RANK=str(rank % ranks_per_node),
        HIPRESS_LOCAL_SIZE=str(ranks_per_node),
        HIPRESS_RENDEZVOUS=f"{address(0)}:{_RENDEZVOUS_PORT}",
        MASTER_PORT=str(_MASTER_PORT),
    )
    entered = enter(int(nodes[node]), command)
    os.execvp(entered[0], entered)


if __name__ == "__main__":
    main()
