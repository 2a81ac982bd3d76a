# SPDX-License-Identifier: Apache-2.0
"""Compares predicted and measured steps of plans and of a grid of uniform choices.

    python benchmarks/planning.py --nodes 4 --rate 5gbit --model resnet50 --codec onebit,tbq,terngrad,dgc --json FILE

The command makes the cluster, measures a profile on it, makes plans, and runs every plan and every uniform combination
of codec, topology and partitions in turn. benchmarks/README.md describes the measurement and the columns. It needs
root; exit code 77: no cluster can be made here.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.cluster import Cluster, ClusterError
from benchmarks.harness.arguments import rate_name
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.release import RELEASES
from benchmarks.harness.report import parse_names, print_table, write_json
from benchmarks.harness.topologies import candidates
from benchmarks.models import MODELS
from benchmarks.planning.job import Answer, Job
from benchmarks.planning.rows import Setting, rows_of, summary
from hipress.secopa.profile.profile import Profile
from hipress.secopa.whatif.scenario import Scenario, profile_for

_RANK = Path(__file__).with_name("rank.py")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=4, help="nodes of the emulated cluster (default: 4)")
    parser.add_argument("--ranks-per-node", type=int, default=1, help="ranks on each node (default: 1)")
    parser.add_argument(
        "--rate", type=rate_name, default="5gbit", help="rate of the nodes' links; none: unlimited (default: 5gbit)"
    )
    parser.add_argument(
        "--model", choices=MODELS, default="resnet50", help="the model of the gradients (default: resnet50)"
    )
    parser.add_argument(
        "--release", choices=RELEASES, default="all", help="all gradients at once, or each at its release time"
    )
    parser.add_argument(
        "--codec", type=parse_names, default="onebit,tbq,terngrad,dgc", help="separated by commas (default: these)"
    )
    parser.add_argument(
        "--topology", type=parse_names, help="separated by commas (default: the topologies that make sense)"
    )
    parser.add_argument(
        "--partitions",
        type=parse_names,
        default="0",
        help="of uniform runs, separated by commas; 0: by the size of each tensor (default)",
    )
    parser.add_argument(
        "--turns",
        "--rounds",
        dest="turns",
        type=int,
        default=3,
        help="number of turns, each with some repetitions of every run (default: 3)",
    )
    parser.add_argument("--profile", type=Path, metavar="FILE", help="a profile to use instead of a measured one")
    parser.add_argument(
        "--profile-nodes",
        type=int,
        metavar="N",
        help="measure the profile on so many nodes; the other nodes are assumed to be equal (default: all)",
    )
    parser.add_argument(
        "--profile-seconds", type=float, default=20.0, help="duration of the profile's measurement (default: 20)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="also write the profile and the plans to this folder")
    parser.add_argument(
        "--timeout", type=float, default=180, help="deadline of one synchronisation in seconds (default: 180)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def job_of(given: argparse.Namespace) -> Job:
    """The job of the command line."""
    topologies = {
        codec: given.topology or candidates(codec, given.nodes, given.ranks_per_node)
        for codec in ("none", *given.codec)
    }
    each = [[codec] for codec in given.codec]
    return Job(
        model=given.model,
        release=given.release,
        grid=[
            (codec, topology, int(partitions))
            for codec, named in topologies.items()
            for topology in named
            for partitions in given.partitions
        ],
        # There is a plan for each codec, and one that may use all codecs.
        planned=[*each, given.codec] if len(each) > 1 else each,
        topologies=sorted({topology for named in topologies.values() for topology in named}),
        turns=given.turns,
        profile=given.profile.read_text() if given.profile else "",
        profile_s=given.profile_seconds,
        timeout=given.timeout,
        result="",
    )


def _measured(job: Job, nodes: int, given: argparse.Namespace) -> Answer:
    """Runs the job on a cluster of `nodes` nodes. Raises RankFailed, ClusterError."""

    def command(_: int, result: str) -> tuple[str, ...]:
        return (sys.executable, str(_RANK), replace(job, result=result).to_json())

    with Cluster(nodes, given.rate) as network:
        world = nodes * given.ranks_per_node
        return Answer.from_json(run_job(command, network, world=world, ranks_per_node=given.ranks_per_node))


def _of_nodes(profile: str, given: argparse.Namespace) -> str:
    """The profile for another number of nodes, emulated on the same machine."""
    nodes = Scenario(given.nodes, given.ranks_per_node, one_machine=True)
    return profile_for(Profile.parse(profile, "the profile"), nodes).to_json()


def _keep(answer: Answer, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.json").write_text(answer.profiles[0])
    for one in answer.measured:
        if one.plan is not None:
            (folder / f"plan-{one.codec.replace(',', '-')}.json").write_text(one.plan)


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.profile and given.profile_nodes:
        parser.error("a profile is read with --profile, or measured on --profile-nodes")
    if min(given.nodes, given.ranks_per_node, given.turns) < 1 or not all(one.isdecimal() for one in given.partitions):
        parser.error("--nodes, --ranks-per-node and --turns must be at least 1, --partitions numbers")
    job = job_of(given)
    try:
        if given.profile_nodes:
            profile = _measured(replace(job, planned=[], turns=0), given.profile_nodes, given).profiles[0]
            job = replace(job, profile=_of_nodes(profile, given))
        answer = _measured(job, given.nodes, given)
    except (RankFailed, ClusterError) as error:
        return exit_code("planning.py", error)
    except KeyboardInterrupt:
        return 130
    if given.keep:
        _keep(answer, given.keep)
    setting = Setting(given.nodes, given.ranks_per_node, given.rate, given.profile_nodes or given.nodes)
    rows = rows_of(answer, job, setting)
    print_table(rows, leave_out=("world", "ranks_per_node", "release", "planning_s"))
    print(summary(rows))
    if given.json:
        write_json(given.json, rows)
    return 0
