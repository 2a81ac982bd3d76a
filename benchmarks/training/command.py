# SPDX-License-Identifier: Apache-2.0
"""Measures a training step with HiPress, with other systems, and with computing alone, in the same run.

    python benchmarks/train.py --nodes 4 --rate 1gbit --model resnet50 --codec none,onebit \\
        --topology ps --peer ddp,ddp-fp16,horovod --json FILE
    python benchmarks/train.py --device cuda --nodes 4 --rate 1gbit --model bert-base --peer ddp,hook-int8 --json FILE
    python benchmarks/train.py --framework mxnet --nodes 4 --rate 1gbit --model resnet50 --codec onebit \\
        --peer dist-sync,dist-sync-2bit,horovod --json FILE

The command makes the cluster (needs root) and starts the ranks; without --nodes the ranks are processes of this
machine. benchmarks/README.md describes the measurement and the columns. Exit code 77: no cluster can be made here; 3: a
system could not be measured, and the command has measured only the other systems.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.cluster import INTERFACE, Cluster, ClusterError, Network
from benchmarks.harness import framework_environment, horovod_environment
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import EXIT_PEER_UNAVAILABLE, RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, parse_names, print_table, spread, write_json
from benchmarks.training.job import APART, BATCH_SIZES, GPU_BATCH_SIZES, GROUPS, MODELS, PEERS, Job, Measured

_RANKS = {"torch": "rank.py", "mxnet": "mxnet_rank.py"}
_PEERS = tuple(dict.fromkeys(peer for peers in PEERS.values() for peer in peers))


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: no cluster)"
    )
    parser.add_argument(
        "--rate", default="none", help="rate of the nodes' links, such as 1gbit; none: unlimited (default)"
    )
    parser.add_argument(
        "--world", type=int, default=4, help="without --nodes: number of ranks on this machine (default: 4)"
    )
    parser.add_argument("--framework", choices=PEERS, default="torch", help="(default: torch)")
    parser.add_argument("--model", choices=MODELS["torch"], default="resnet50", help="(default: resnet50)")
    batches = ", ".join(f"{model} {size}, on a GPU {GPU_BATCH_SIZES[model]}" for model, size in BATCH_SIZES.items())
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="(default: cpu; on cuda ranks share a GPU)"
    )
    parser.add_argument(
        "--group",
        choices=sorted({group for groups in GROUPS.values() for group in groups}),
        help="what carries the tensors of DDP and the hook (default: gloo, with --device cuda nccl)",
    )
    parser.add_argument("--batch-size", type=int, help=f"batch size of each rank (default: {batches})")
    parser.add_argument(
        "--codec", type=parse_names, default=["onebit"], help="codecs of HiPress, separated by commas (default: onebit)"
    )
    parser.add_argument("--topology", default="ps", help="topology of HiPress (default: ps)")
    parser.add_argument(
        "--peer",
        type=names_of("peer", _PEERS),
        help="by commas (default: the first); "
        + "; ".join(f"{framework}: {','.join(peers)}" for framework, peers in PEERS.items()),
    )
    parser.add_argument("--steps", type=int, default=10, help="timed steps of each system (default: 10)")
    parser.add_argument(
        "--timeout", type=float, default=300, help="deadline of one synchronisation in seconds (default: 300)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses options that contradict each other, and sets defaults."""
    sizes = GPU_BATCH_SIZES if given.device == "cuda" else BATCH_SIZES
    given.batch_size = sizes[given.model] if given.batch_size is None else given.batch_size
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
    groups = GROUPS[given.device]
    given.group = groups[0] if given.group is None else given.group
    if given.group not in groups:
        parser.error(f"--group {given.group} does not take tensors of --device {given.device}")
    if "ddp-bf16" in given.peer and given.group != "nccl":
        parser.error("ddp-bf16 needs --group nccl: torch's bf16_compress_hook refuses Gloo")
    if given.framework != "torch" and given.device != "cpu":
        parser.error(f"--device cuda is for --framework torch, not {given.framework}")
    given.world = given.nodes or given.world


def _run(job: Job, given: argparse.Namespace, network: Network | None) -> list[Measured]:
    """Runs a job with ranks of the right environment. Raises RankFailed, BuildFailed, EnvironmentFailed."""
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
    """The row of one system. `first`: the time to which the speedup refers."""
    times = {**spread("time", measured.seconds), **spread("alone", measured.alone_seconds)}
    return {
        **_place(measured.system, given),
        "device": measured.device,
        "group": given.group if measured.system not in APART else None,
        **times,
        "time_alone_ratio": measured.compute_ratio,
        "speedup_ratio": None if first is None else first / float(times["time_s"] or 0),
        "cpu_s": sum(measured.cpu_seconds) / len(measured.cpu_seconds),
        "bytes_sent": measured.bytes_sent,
        "chosen": measured.chosen or None,
        "steps_to_choose": measured.steps_to_choose or None,
        "unavailable": None,
    }


def unavailable_row(system: str, given: argparse.Namespace, reason: str) -> Row:
    """The row of a system that could not be measured, without figures."""
    figures = [f"{name}{ending}_s" for name in ("time", "alone") for ending in ("", "_min", "_max")]
    figures += ["time_alone_ratio", "speedup_ratio", "cpu_s", "bytes_sent", "chosen", "steps_to_choose"]
    return {**_place(system, given), "device": None, "group": None, **dict.fromkeys(figures), "unavailable": reason}


def _measure(job: Job, given: argparse.Namespace, network: Network | None) -> tuple[list[Measured], dict[str, str]]:
    """The measured systems, and for each other system the reason. Raises RankFailed unless a peer in its own processes
    failed."""
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
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    check(parser, given)
    job = Job(
        model=given.model,
        device=given.device,
        group=given.group,
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
