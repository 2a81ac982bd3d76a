# SPDX-License-Identifier: Apache-2.0
"""Emulated clusters from the command line.

    python -m benchmarks.cluster up --nodes 4 --rate 1gbit          prints the cluster's name; holds it until Ctrl-C
    python -m benchmarks.cluster run --nodes 4 --rate 1gbit CMD...  CMD in every node of a new cluster, then down
                                 --round-trip 50                    (up and run) and 50 ms from node to node and back
                                 --port-limit 131072                (up and run) and a switch whose queues overflow
    python -m benchmarks.cluster exec NAME NODE CMD...              CMD in a node of a running cluster
    python -m benchmarks.cluster rate NAME RATE [--node NODE]       another rate for all links, or for one
    python -m benchmarks.cluster cut|restore NAME NODE              take a link down, and up again
    python -m benchmarks.cluster list                               names of the running clusters
    python -m benchmarks.cluster down NAME                          end everything in it

Exit code 77: this machine or this user cannot have clusters; 2: wrong arguments; 1: another error. Otherwise run and
exec have the exit code of CMD (run: of the first CMD that failed).
"""

from __future__ import annotations

import argparse
import os
import sys

from . import EXIT_UNAVAILABLE, Cluster, ClusterError, ClusterUnavailable, attach, launch_on, names
from .cluster import check_available
from .network import enter, node_environment
from .parent import end_with_parent


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    up = commands.add_parser("up", help="make a cluster and hold it")
    run = commands.add_parser("run", help="run a command in every node of a new cluster")
    for made in (up, run):
        made.add_argument("--nodes", type=int, required=True, help="how many")
        made.add_argument("--rate", required=True, help="rate of each link in each direction: 1gbit, 100mbit, none")
        made.add_argument(
            "--round-trip", type=float, default=0, metavar="MS", help="round trip between two nodes in ms (default: 0)"
        )
        made.add_argument(
            "--port-limit",
            type=int,
            metavar="BYTES",
            help="bytes that may wait at a port of the switch (default: 1 MiB)",
        )
    run.add_argument("--ranks-per-node", type=int, default=1, help="commands per node (default: 1)")
    run.add_argument("--timeout", type=float, metavar="S", help="end the commands after S seconds (default: never)")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    for action, summary in (
        ("exec", "run a command in a node"),
        ("rate", "change the rate of links"),
        ("cut", "take a link down"),
        ("restore", "take a link up again"),
        ("down", "end a cluster"),
    ):
        changed = commands.add_parser(action, help=summary)
        changed.add_argument("name", help="the cluster's name, which up and list print")
        if action in ("exec", "cut", "restore"):
            changed.add_argument("node", type=int, help="the node's number, from 0")
        if action == "exec":
            changed.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
        if action == "rate":
            changed.add_argument("rate", help="1gbit, 100mbit, none")
            changed.add_argument("--node", type=int, help="change only this node's link (default: all links)")
    commands.add_parser("list", help="print the names of the running clusters")
    return parser


def main() -> int:
    """Runs the action of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.action in ("run", "exec"):
        given.command = given.command[1:] if given.command[:1] == ["--"] else given.command
        if not given.command:
            parser.error(f"{given.action} needs a command")
    try:
        check_available()
        return _do(given)
    except ClusterUnavailable as error:
        print(f"cluster: {error}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _do(given: argparse.Namespace) -> int:
    if given.action == "list":
        print(*names(), sep="\n", end="\n" if names() else "")
        return 0
    if given.action in ("up", "run"):
        # If the parent process is killed, no process needs the cluster any more.
        end_with_parent()
        with Cluster(given.nodes, given.rate, given.round_trip, given.port_limit) as cluster:
            if given.action == "run":
                return launch_on(cluster, given.command, ranks_per_node=given.ranks_per_node, timeout=given.timeout)
            print(cluster.name, flush=True)
            cluster.wait()
        return 0
    network = attach(given.name)
    if given.action == "down":
        network.kill()
    elif given.action == "rate":
        network.set_rate(given.rate, given.node)
    elif given.action == "cut":
        network.cut(given.node)
    elif given.action == "restore":
        network.restore(given.node)
    else:
        environment = {**os.environ, **node_environment(given.node, len(network.nodes))}
        command = enter(network.holder(given.node), given.command)
        os.execvpe(command[0], command, environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
