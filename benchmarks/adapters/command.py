# SPDX-License-Identifier: Apache-2.0
"""Measures the time in which each framework's adapter averages the same gradients, in turn in one run.

    python benchmarks/adapters.py --nodes 4 --rate 1gbit --model resnet50 --codec onebit --json FILE

The command makes the frameworks' environments at their first use and the cluster (--nodes; needs root), and starts the
ranks. benchmarks/README.md describes the measurement and the columns. Exit code 77: no cluster can be made here; 3: a
framework has no environment here, and the command has measured only the other frameworks.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.adapters.job import Job, Member
from benchmarks.adapters.turns import Figures, Turns
from benchmarks.cluster import INTERFACE, Cluster, ClusterError
from benchmarks.harness import framework_environment
from benchmarks.harness.arguments import codec_names, names_of, rate_name, topology_names
from benchmarks.harness.averaging_rows import Setting, row, unavailable_row
from benchmarks.harness.codec_work import codec_seconds, codec_speed
from benchmarks.harness.rank_jobs import EXIT_PEER_UNAVAILABLE, RankFailed, exit_code, free_port, run_ranks
from benchmarks.harness.report import Row, print_table, write_json
from benchmarks.harness.samples import Measured
from benchmarks.models import MODELS, load
from hipress.adapter.synchronizer import SynchronizationOptions

_ENTER = Path(__file__).with_name("enter.py")
FRAMEWORKS = framework_environment.FRAMEWORKS
#: TensorFlow gets one compute thread (the other frameworks obey OMP_NUM_THREADS), and writes no log at the start.
_TENSORFLOW = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: no cluster)"
    )
    parser.add_argument(
        "--rate", type=rate_name, default="none", help="rate of the nodes' links, such as 1gbit; none: unlimited"
    )
    parser.add_argument("--world", type=int, default=4, help="without --nodes: ranks of each framework (default: 4)")
    parser.add_argument(
        "--model", choices=MODELS, default="resnet50", help="the model of the gradients (default: resnet50)"
    )
    parser.add_argument("--codec", type=codec_names, default=["onebit"], help="one (default: onebit)")
    parser.add_argument("--topology", type=topology_names, default=["ps"], help="one (default: ps)")
    parser.add_argument(
        "--framework",
        type=names_of("framework", FRAMEWORKS),
        default=list(FRAMEWORKS),
        help=f"separated by commas; the first one is the reference (default: {','.join(FRAMEWORKS)})",
    )
    parser.add_argument("--repeat", type=int, default=0, help="timed repetitions (default: about 10 s, at least 7)")
    parser.add_argument(
        "--timeout", type=float, default=120, help="deadline of one synchronisation in seconds (default: 120)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses options that contradict each other."""
    if min(given.world, 1 if given.nodes is None else given.nodes) < 1 or given.repeat < 0:
        parser.error("--nodes and --world must be at least 1, --repeat at least 0 (0: by itself)")
    if not 0 < given.timeout < 1e6:
        parser.error("--timeout must be more than 0")
    if not given.framework or len(given.codec) != 1 or len(given.topology) != 1:
        parser.error("--framework needs at least one, --codec and --topology take one each")
    given.codec, given.topology = given.codec[0], given.topology[0]
    given.world = given.nodes or given.world


def members(frameworks: Sequence[str]) -> tuple[list[Member], dict[str, str]]:
    """The frameworks with an environment here, and for each other framework the reason why it has none."""
    found, missing = [], {}
    for framework in frameworks:
        try:
            python = framework_environment.python(framework)
            own = _TENSORFLOW if framework == "tensorflow" else {}
            variables = {**framework_environment.variables(framework), **own}
            found.append(Member(framework, str(python), variables, free_port()))
        except framework_environment.EnvironmentFailed as error:
            missing[framework] = str(error)
    return found, missing


def _measure(found: list[Member], given: argparse.Namespace) -> dict[str, Figures]:
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Cluster(given.nodes, given.rate)) if given.nodes else None
        turns = stack.enter_context(Turns([member.framework for member in found], given.world, given.repeat))
        job = Job(
            members=found,
            ranks=given.world,
            model=given.model,
            codec=given.codec,
            topology=given.topology,
            timeout=given.timeout,
            interface=INTERFACE if given.nodes else "",
            turns=turns.path,
        )
        # Each node has one rank of each framework; without nodes this machine has all ranks.
        of_node = len(found) * (1 if given.nodes else given.world)
        command = (sys.executable, str(_ENTER), job.to_json())
        run_ranks(command, network, world=len(found) * given.world, ranks_per_node=of_node)
        return turns.figures()


def _rows(figures: Mapping[str, Figures], missing: Mapping[str, str], given: argparse.Namespace) -> list[Row]:
    gradients = load(given.model)
    setting = Setting(
        model=given.model,
        size=gradients.size,
        nodes=given.nodes or 1,
        ranks_per_node=1 if given.nodes else given.world,
        rate=given.rate if given.nodes else None,
        release="all",
        backward_s=gradients.backward_s,
        cores=len(os.sched_getaffinity(0)),
    )
    codec_s = None
    if figures and given.codec != "none":
        hosts = [rank if given.nodes else 0 for rank in range(given.world)]
        smallest = SynchronizationOptions().min_compress_bytes
        speed = codec_speed(given.codec)
        if speed is not None:
            codec_s = codec_seconds(speed, gradients, given.topology, hosts, smallest)
    measured = [
        Measured(f"hipress.{framework}", given.codec, given.topology, of.error, of.samples, codec_s)
        for framework, of in figures.items()
    ]
    rows = [row(one, setting, measured[0].time_s) for one in measured]
    return rows + [unavailable_row(f"hipress.{framework}", setting, why) for framework, why in missing.items()]


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    check(parser, given)
    found, missing = members(given.framework)
    try:
        figures = _measure(found, given) if found else {}
    except (RankFailed, ClusterError) as error:
        return exit_code("adapters.py", error)
    rows = _rows(figures, missing, given)
    place = f"{given.nodes} nodes at {given.rate}" if given.nodes else "this machine"
    print(f"The gradients of {given.model}, averaged over {place}, one thread for every framework:")
    print_table(rows, leave_out=("algbw_gbps", "busbw_gbps", "size_bytes", "trials", "unavailable"))
    if given.json:
        write_json(given.json, rows)
    for framework, why in missing.items():
        print(f"adapters.py: hipress.{framework} was not measured: {why}", file=sys.stderr)
    return EXIT_PEER_UNAVAILABLE if missing else 0
