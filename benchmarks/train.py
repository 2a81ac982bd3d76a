# SPDX-License-Identifier: Apache-2.0
"""How long a training step takes beside computing alone, and with what people use today in the same run.

    python benchmarks/train.py --nodes 4 --rate 1gbit --model resnet50 --batch-size 2 --codec none,onebit \\
        --topology ps --peer ddp,ddp-fp16,horovod --json FILE

Makes the cluster (needs root) and starts the ranks itself; without --nodes, ranks are processes of this machine. What
is measured, how, and what the columns mean: benchmarks/README.md. Exit code 77: no cluster can be made here; 3: a peer
could not be measured, all else was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import horovod_environment
from cluster import INTERFACE, Cluster, ClusterError, Network
from rank_jobs import EXIT_PEER_UNAVAILABLE, RankFailed, exit_code, names_of, run_job
from report import Row, parse_names, print_table, spread, write_json
from train_job import MODEL_NAMES, PEER_NAMES, Job, Measured

_RANK = Path(__file__).with_name("train_rank.py")


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="of an emulated cluster, which needs root (default: none is made)")
    parser.add_argument("--rate", default="none", help="of the nodes' links: 1gbit; none: unshaped (default)")
    parser.add_argument("--world", type=int, default=4, help="without --nodes: ranks on this machine (default: 4)")
    parser.add_argument("--model", choices=MODEL_NAMES, default="resnet50", help="(default: resnet50)")
    parser.add_argument("--batch-size", type=int, default=2, help="of each rank (default: 2)")
    parser.add_argument("--codec", type=parse_names, default=["onebit"], help="of ours, by commas (default: onebit)")
    parser.add_argument("--topology", default="ps", help="of ours (default: ps)")
    parser.add_argument(
        "--peer",
        type=names_of("peer", PEER_NAMES),
        default=["ddp"],
        help=f"by commas: {','.join(PEER_NAMES)} (default: ddp)",
    )
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each system (default: 10)")
    parser.add_argument("--timeout", type=float, default=300, help="of one synchronisation, in seconds (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def _run(job: Job, python: str, given: argparse.Namespace, network: Network | None) -> list[Measured]:
    """Measures a job with ranks of that Python. Raises RankFailed."""

    def command(port: int, result: str) -> tuple[str, ...]:
        return (python, str(_RANK), replace(job, gloo_port=port, result=result).to_json())

    return [Measured(**one) for one in json.loads(run_job(command, network, world=given.world))]


def _row(measured: Measured, given: argparse.Namespace, first: float | None) -> Row:
    row: Row = {
        "system": measured.system,
        "model": given.model,
        "batch_size": given.batch_size,
        "nodes": given.nodes or 1,
        "ranks": given.nodes or given.world,
        "rate": given.rate if given.nodes else None,
        "steps": given.steps,
        **spread("time", measured.seconds),
        **spread("alone", measured.alone_seconds),
    }
    return {
        **row,
        "time_alone_ratio": measured.compute_ratio,
        "speedup_ratio": None if first is None else first / float(row["time_s"] or 0),
        "cpu_s": sum(measured.cpu_seconds) / len(measured.cpu_seconds),
        "bytes_sent": measured.bytes_sent,
    }


def _measure(job: Job, given: argparse.Namespace, network: Network | None) -> tuple[list[Measured], str]:
    """Everything asked for, and why Horovod is not among it (empty: it is, or was not asked for)."""
    together = replace(job, systems=[system for system in job.systems if system != "horovod"])
    measured = _run(together, sys.executable, given, network) if together.systems else []
    if together.systems == job.systems:
        return measured, ""
    try:
        python = horovod_environment.python("torch")
        return measured + _run(replace(job, systems=["horovod"]), str(python), given, network), ""
    except (horovod_environment.BuildFailed, RankFailed) as error:
        return measured, str(error)


def main() -> int:
    """Measure as the command line says; the exit code."""
    parser = arguments()
    given = parser.parse_args()
    counts = (given.world, given.batch_size, given.steps, 1 if given.nodes is None else given.nodes)
    if min(counts) < 1 or not 0 < given.timeout < 1e6:
        parser.error("--nodes, --world, --batch-size and --steps must be at least 1, --timeout more than 0")
    job = Job(
        model=given.model,
        batch_size=given.batch_size,
        systems=[*(f"hipress {codec} {given.topology}" for codec in given.codec), *given.peer],
        steps=given.steps,
        timeout=given.timeout,
        interface=INTERFACE if given.nodes else "",
        gloo_port=0,
        result="",
    )
    try:
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(Cluster(given.nodes, given.rate)) if given.nodes else None
            measured, missing = _measure(job, given, network)
    except (RankFailed, ClusterError) as error:
        return exit_code("train.py", error)
    first = next((sorted(one.seconds)[len(one.seconds) // 2] for one in measured if one.system in PEER_NAMES), None)
    rows = [_row(one, given, first) for one in measured]
    print("A training step and, in turn with it, computing alone; OMP_NUM_THREADS=1:")
    print_table(rows)
    if given.json:
        write_json(given.json, rows)
    if missing:
        print(f"train.py: horovod was not measured: {missing}", file=sys.stderr)
        return EXIT_PEER_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
