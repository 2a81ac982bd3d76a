# SPDX-License-Identifier: Apache-2.0
"""Measures the gain of each part of HiPress by adding parts one after the other (Fig. 11 of the paper) or removing one.

    python benchmarks/ablation.py --nodes 4 --rate 1gbit --model vgg19 --json FILE

The command makes the cluster (--nodes; needs root) and starts the ranks. benchmarks/README.md describes the measurement
and the columns. Exit code 77: no cluster can be made here.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.ablation.job import Job, Visits, visits_from_json
from benchmarks.ablation.rows import Setting, rows
from benchmarks.ablation.variants import schedules_and_lines, variants_and_lines
from benchmarks.cluster import Cluster, ClusterError, Network
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.release import RELEASES
from benchmarks.harness.report import print_table, write_json
from benchmarks.harness.simulated_training import forward_seconds
from benchmarks.models import MODELS
from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.runtime import RuntimeOptions

_RANK = Path(__file__).with_name("rank.py")


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
        "--port-limit",
        type=int,
        metavar="BYTES",
        help="with --nodes: bytes that may wait at a port of the switch, which drops further packets (default: 1 MiB)",
    )
    parser.add_argument(
        "--world", type=int, default=4, help="without --nodes: number of ranks on this machine (default: 4)"
    )
    parser.add_argument("--model", choices=MODELS, default="vgg19", help="the model of the gradients (default: vgg19)")
    parser.add_argument(
        "--release",
        choices=RELEASES,
        default="backward",
        help="each gradient when backward releases it, or all at once",
    )
    parser.add_argument("--backward-s", type=float, default=0.2, help="duration of backward in seconds (default: 0.2)")
    parser.add_argument(
        "--codec", default="onebit", help="the codec with which parts are added and removed (default: onebit)"
    )
    parser.add_argument(
        "--schedules", action="store_true", help="compare only the schedules of links; --codec may be none"
    )
    parser.add_argument("--topology", default="ps", help="(default: ps)")
    parser.add_argument("--seconds", type=float, default=100, help="approximate duration of all turns (default: 100)")
    parser.add_argument(
        "--turns", "--rounds", dest="turns", type=int, default=0, help="number of turns, instead of --seconds"
    )
    parser.add_argument(
        "--timeout", type=float, default=120, help="deadline of one synchronisation in seconds (default: 120)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses options that cannot be measured, before any rank starts."""
    if min(1 if given.nodes is None else given.nodes, given.world) < 1 or given.turns < 0:
        parser.error("--nodes and --world must be at least 1, --turns at least 0 (0: as many as fit)")
    if not 0 < given.backward_s < 1e3 or not 0 < given.seconds < 1e6 or not 0 < given.timeout < 1e6:
        parser.error("--backward-s, --seconds and --timeout must be more than 0")
    if given.port_limit is not None and given.nodes is None:
        parser.error("--port-limit needs the switch of a cluster; give --nodes and --rate")
    known = load_core().topology_names()
    if given.topology.partition("(")[0] not in known:
        parser.error(f"there is no topology {given.topology!r}; choose from {', '.join(known)}")
    try:
        load_core().create_codec(given.codec)
    except InvalidArgument as error:
        parser.error(str(error))
    if given.codec == "none" and not given.schedules:
        parser.error("--codec none: the table shows what a codec gains; name one, or give --schedules")


def _measure(job: Job, world: int, network: Network | None) -> Visits:
    def command(port: int, result: str) -> tuple[str, ...]:
        return (sys.executable, str(_RANK), replace(job, gloo_port=port, result=result).to_json())

    return visits_from_json(run_job(command, network, world=world))


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    check(parser, given)
    compared = schedules_and_lines if given.schedules else variants_and_lines
    variants, lines = compared(given.codec, vars(RuntimeOptions()))
    job = Job(
        model=given.model,
        release=given.release,
        backward_s=given.backward_s,
        variants=variants,
        topology=given.topology,
        seconds=given.seconds,
        turns=given.turns,
        timeout=given.timeout,
        gloo_port=0,
        result="",
    )
    world = given.nodes or given.world
    try:
        with contextlib.ExitStack() as stack:
            network = None
            if given.nodes:
                network = stack.enter_context(Cluster(given.nodes, given.rate, port_limit=given.port_limit))
            visits = _measure(job, world, network)
    except (RankFailed, ClusterError) as error:
        return exit_code("ablation.py", error)
    except KeyboardInterrupt:
        return 130
    setting = Setting(
        model=given.model,
        size=job.gradients.size,
        topology=given.topology,
        nodes=given.nodes or 1,
        world=world,
        rate=given.rate if given.nodes else None,
        port_limit=given.port_limit,
        release=given.release,
        backward_s=job.backward_s if given.release == "backward" else None,
        forward_s=sum(forward_seconds(job.gradients)),
    )
    table = rows(lines, variants, visits, setting)
    print(f"{setting.size / 1e6:g} MB of float32, OMP_NUM_THREADS=1:")
    print_table(
        table, leave_out=("size_bytes", "codec", "settings", "time_min_s", "time_max_s", "step_min_s", "step_max_s")
    )
    if given.json:
        write_json(given.json, table)
    return 0
