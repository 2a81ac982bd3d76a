# SPDX-License-Identifier: Apache-2.0
"""Measures how long a burst of named calls takes over links with a delay, beside a list that was agreed on before.

    python benchmarks/calls.py --nodes 2 --rate 1gbit --round-trip 50 --json FILE

All ways average the same tensors. The command makes the cluster (needs root); without --nodes the ranks are processes
of this machine. README.md describes the ways and the columns. Exit code 77: no cluster can be made here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path

from benchmarks.calls.ways import WAYS
from benchmarks.cluster import INTERFACE, Cluster, ClusterError
from benchmarks.harness.arguments import names_of, rate_name
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, print_table, spread, write_json
from benchmarks.models import MODELS

_RANK = Path(__file__).with_name("rank.py")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: none)")
    parser.add_argument("--rate", type=rate_name, default="1gbit", help="rate of the nodes' links (default: 1gbit)")
    parser.add_argument(
        "--round-trip", type=float, default=50, metavar="MS", help="round trip between two nodes in ms (default: 50)"
    )
    parser.add_argument("--world", type=int, default=2, help="without --nodes: ranks on this machine (default: 2)")
    parser.add_argument("--model", choices=MODELS, default="resnet50", help="whose gradients (default: resnet50)")
    parser.add_argument("--elements", type=int, default=0, help="instead of its sizes: elements of each tensor")
    parser.add_argument("--way", type=names_of("way", WAYS), default=list(WAYS), help=f"(default: {','.join(WAYS)})")
    parser.add_argument("--repeats", type=int, default=7, help="timed turns (default: 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> list[Row]:
    """Runs all ways. Raises RankFailed, ClusterError."""

    def command(port: int, result: str) -> tuple[str, ...]:
        job = {
            "ways": given.way,
            "model": given.model,
            "elements": given.elements,
            "repeats": given.repeats,
            "interface": "" if given.nodes is None else INTERFACE,
            "gloo_port": port,
            "result": result,
        }
        return (sys.executable, str(_RANK), json.dumps(job))

    with contextlib.ExitStack() as stack:
        network = None
        if given.nodes is not None:
            network = stack.enter_context(Cluster(given.nodes, given.rate, given.round_trip))
        answers = json.loads(run_job(command, network, world=given.world))
    listed = statistics.median(answers["seconds"]["list"]) if "list" in given.way else None
    return [
        {
            "way": way,
            **spread("time", seconds),
            "more_than_list_s": None if listed is None else statistics.median(seconds) - listed,
            "tensors": answers["tensors"],
            "elements": answers["elements"],
            "nodes": given.nodes,
            "rate": None if given.nodes is None else given.rate,
            "round_trip_ms": None if given.nodes is None else given.round_trip,
            "world": given.nodes or given.world,
            "repeats": given.repeats,
        }
        for way, seconds in answers["seconds"].items()
    ]


def main() -> int:
    """Measures, prints the table and writes the rows. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if min(given.repeats, given.nodes or given.world) < 1 or given.elements < 0:
        parser.error("--repeats, --nodes and --world must be at least 1, --elements not negative")
    try:
        rows = run(given)
    except (RankFailed, ClusterError) as error:
        return exit_code("calls.py", error)
    except KeyboardInterrupt:
        return 130
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
