# SPDX-License-Identifier: Apache-2.0
"""How long a training step takes beside computing alone, and with what people use today in the same run.

    python benchmarks/train.py --nodes 4 --rate 1gbit --model resnet50 --codec none,onebit \\
        --topology ps --peer ddp,ddp-fp16,horovod --json FILE
    python benchmarks/train.py --framework mxnet --nodes 4 --rate 1gbit --model resnet50 --codec onebit \\
        --peer dist-sync,dist-sync-2bit,horovod --json FILE

Makes the cluster (needs root) and starts the ranks itself; without --nodes, ranks are processes of this machine. What
is measured, how, and what the columns mean: benchmarks/README.md. Exit code 77: no cluster can be made here; 3: a
system could not be measured, all else was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import framework_environment
import horovod_environment
from cluster import INTERFACE, Cluster, ClusterError, Network
from rank_jobs import EXIT_PEER_UNAVAILABLE, RankFailed, exit_code, names_of, run_job
from report import Row, parse_names, print_table, spread, write_json
from train_job import APART, BATCH_SIZES, MODELS, PEERS, Job, Measured

_RANKS = {"torch": "train_rank.py", "mxnet": "train_mxnet_rank.py"}
_PEERS = tuple(dict.fromkeys(peer for peers in PEERS.values() for peer in peers))


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="of an emulated cluster, which needs root (default: none is made)")
    parser.add_argument("--rate", default="none", help="of the nodes' links: 1gbit; none: unshaped (default)")
    parser.add_argument("--world", type=int, default=4, help="without --nodes: ranks on this machine (default: 4)")
    parser.add_argument("--framework", choices=PEERS, default="torch", help="(default: torch)")
    parser.add_argument("--model", choices=MODELS["torch"], default="resnet50", help="(default: resnet50)")
    batches = ", ".join(f"{model} {batch}" for model, batch in BATCH_SIZES.items())
    parser.add_argument("--batch-size", type=int, help=f"of each rank (default: {batches})")
    parser.add_argument("--codec", type=parse_names, default=["onebit"], help="of ours, by commas (default: onebit)")
    parser.add_argument("--topology", default="ps", help="of ours (default: ps)")
    parser.add_argument(
        "--peer",
        type=names_of("peer", _PEERS),
        help="by commas (default: the first); "
        + "; ".join(f"{framework}: {','.join(peers)}" for framework, peers in PEERS.items()),
    )
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each system (default: 10)")
    parser.add_argument("--timeout", type=float, default=300, help="of one synchronisation, in seconds (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses what makes no sense; fills in what is left out."""
    given.batch_size = BATCH_SIZES[given.model] if given.batch_size is None else given.batch_size
    counts = (given.world, given.batch_size, given.steps, 1 if given.nodes is None else given.nodes)
    if min(counts) < 1 or not 0 < given.timeout < 1e6:
        parser.error("--nodes, --world, --batch-size and --steps must be at least 1, --timeout more than 0")
    peers, models = PEERS[given.framework], MODELS[given.framework]
    given.peer = [peers[0]] if given.peer is None else given.peer
    for peer in given.peer:
        if peer not in peers:
            parser.error(f"{peer} is no peer of --framework {given.framework}; its peers are {', '.join(peers)}")
    if given.model not in models:
        parser.error(f"--framework {given.framework} trains {', '.join(models)}, not {given.model}")
    given.world = given.nodes or given.world


def _run(job: Job, given: argparse.Namespace, network: Network | None) -> list[Measured]:
    """Measures a job with ranks that have what it takes. Raises RankFailed, BuildFailed, EnvironmentFailed."""
    if "horovod" in job.systems:
        python = horovod_environment.python(given.framework)
    else:
        python = framework_environment.python(given.framework)
    rank = Path(__file__).with_name(_RANKS[given.framework])

    def command(port: int, result: str) -> tuple[str, ...]:
        return (str(python), str(rank), replace(job, gloo_port=port, result=result).to_json())

    env = framework_environment.variables(given.framework)
    return [Measured(**one) for one in json.loads(run_job(command, network, world=given.world, env=env))]


def _place(system: str, given: argparse.Namespace) -> Row:
    return {
        "system": system,
        "framework": given.framework,
        "model": given.model,
        "batch_size": given.batch_size,
        "nodes": given.nodes or 1,
        "ranks": given.world,
        "rate": given.rate if given.nodes else None,
        "steps": given.steps,
    }


def row(measured: Measured, given: argparse.Namespace, first: float | None) -> Row:
    """What is reported of one system. `first`: the time that the speedup refers to."""
    times = {**spread("time", measured.seconds), **spread("alone", measured.alone_seconds)}
    return {
        **_place(measured.system, given),
        **times,
        "time_alone_ratio": measured.compute_ratio,
        "speedup_ratio": None if first is None else first / float(times["time_s"] or 0),
        "cpu_s": sum(measured.cpu_seconds) / len(measured.cpu_seconds),
        "bytes_sent": measured.bytes_sent,
        "unavailable": None,
    }


def unavailable_row(system: str, given: argparse.Namespace, reason: str) -> Row:
    """Of a system that was asked for and could not be measured: no figures."""
    figures = [f"{name}{ending}_s" for name in ("time", "alone") for ending in ("", "_min", "_max")]
    figures += ["time_alone_ratio", "speedup_ratio", "cpu_s", "bytes_sent"]
    return {**_place(system, given), **dict.fromkeys(figures), "unavailable": reason}


def _measure(job: Job, given: argparse.Namespace, network: Network | None) -> tuple[list[Measured], dict[str, str]]:
    """Who could be measured, and why the others could not. Raises RankFailed if it is not a peer's own processes that
    fail."""
    together = [system for system in job.systems if system not in APART]
    measured, missing = [], {}
    for systems in [together, *([system] for system in job.systems if system in APART)]:
        if not systems:
            continue
        try:
            measured += _run(replace(job, systems=systems), given, network)
        except (horovod_environment.BuildFailed, framework_environment.EnvironmentFailed) as error:
            missing |= dict.fromkeys(systems, str(error))
        except RankFailed as error:
            if systems == together:
                raise
            missing |= dict.fromkeys(systems, str(error))
    return measured, missing


def main() -> int:
    """Measure as the command line says; the exit code."""
    parser = arguments()
    given = parser.parse_args()
    check(parser, given)
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
    first = next((statistics.median(one.seconds) for one in measured if one.system in given.peer), None)
    rows = [row(one, given, first) for one in measured]
    rows += [unavailable_row(system, given, why) for system, why in missing.items()]
    print("A training step and, in turn with it, computing alone; OMP_NUM_THREADS=1:")
    print_table(rows, leave_out=("unavailable",))
    if given.json:
        write_json(given.json, rows)
    for system, why in missing.items():
        print(f"train.py: {system} was not measured: {why}", file=sys.stderr)
    return EXIT_PEER_UNAVAILABLE if missing else 0


if __name__ == "__main__":
    sys.exit(main())
