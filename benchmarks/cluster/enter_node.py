# SPDX-License-Identifier: Apache-2.0
"""Between launcher and rank: enters the rank's node and becomes its command.

    python enter_node.py RANKS_PER_NODE PID,PID,... COMMAND...

The processes are those that hold the nodes.
"""

import contextlib
import os
import sys
from pathlib import Path

# A script's own directory is on the path, the one that its package is in is not.
sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.network import address, enter, node_environment

#: Nobody else listens in a node.
_RENDEZVOUS_PORT = 29400
_MASTER_PORT = 29500


def main() -> None:
    """Does not return."""
    ranks_per_node, nodes, command = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    rank = int(os.environ["HIPRESS_RANK"])
    node = rank // ranks_per_node
    # The launcher's socket is in the machine's network, where no node gets: rank 0 binds the address below.
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
