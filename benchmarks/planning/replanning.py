# SPDX-License-Identifier: Apache-2.0
"""Measures the time until plan="auto" follows a change of the links' rate in a training, and the steps around it.

    python benchmarks/replanning.py --nodes 2 --rate 5gbit --then 1gbit --model resnet50 --codec onebit --json FILE

replanning_rank.py describes the training. The exit code is 1 if the plan did not follow, if ranks had different plans
or parameters, or if a residual was lost; 77 if no cluster can be made here. The command needs root.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.cluster import Cluster, ClusterError
from benchmarks.harness.arguments import rate_name
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, parse_names, print_table, spread, write_json
from benchmarks.models import MODELS
from benchmarks.planning.replanning_job import Answer, Job, Step

_RANK = Path(__file__).with_name("replanning_rank.py")
#: The largest share of the averages that may be missing at the end, because of the rounding of some hundred sums.
_ROUNDING = 1e-3
#: Pause between two checks of the ranks' progress (seconds).
_LOOK_S = 0.05


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--nodes", type=int, default=2, help="nodes of the emulated cluster, with one rank each (default: 2)"
    )
    parser.add_argument("--rate", type=rate_name, default="5gbit", help="rate of the links at first (default: 5gbit)")
    parser.add_argument("--then", type=rate_name, default="1gbit", help="rate of the links afterwards (default: 1gbit)")
    parser.add_argument(
        "--model", choices=MODELS, default="resnet50", help="the model of the gradients (default: resnet50)"
    )
    parser.add_argument(
        "--codec", type=parse_names, default="onebit", help="codecs that plans may use (default: onebit)"
    )
    parser.add_argument("--backward", type=float, default=0.5, help="duration of backward in seconds (default: 0.5)")
    parser.add_argument("--profile-seconds", type=float, default=10.0, help="duration of the measurement (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> Answer:
    """Runs the training. Raises RankFailed, ClusterError."""
    over = threading.Event()
    with tempfile.TemporaryDirectory() as folder, Cluster(given.nodes, given.rate) as network:
        job = Job(given.model, given.codec, given.backward, given.profile_seconds, folder, "")

        def change() -> None:
            while not over.is_set():
                if job.settled.exists():
                    network.set_rate(given.then)
                    job.changed.touch()
                    return
                time.sleep(_LOOK_S)

        def command(_: int, result: str) -> tuple[str, ...]:
            return (sys.executable, str(_RANK), replace(job, result=result).to_json())

        changing = threading.Thread(target=change)
        changing.start()
        try:
            return Answer.from_json(run_job(command, network, world=given.nodes))
        finally:
            over.set()
            changing.join()


def rows_of(answer: Answer, given: argparse.Namespace) -> list[Row]:
    """One row for each series of steps with the same rate and plan, in order."""
    rows: list[Row] = []
    steps = answer.steps
    first_changed = next(index for index, step in enumerate(steps) if step.changed)
    start = 0
    while start < len(steps):
        end = next((i for i in range(start, len(steps)) if _phase(steps[i]) != _phase(steps[start])), len(steps))
        phase = steps[start:end]
        rows.append(
            {
                "model": given.model,
                "nodes": given.nodes,
                "backward_s": given.backward,
                "rate": given.then if phase[0].changed else given.rate,
                "compressed": phase[0].compressed if phase[0].plan else None,
                "gradients": answer.gradients,
                "steps": len(phase),
                "after_change": start - first_changed if phase[0].changed else None,
                **spread("time", [step.seconds for step in phase]),
                "bytes_sent": round(statistics.median(step.bytes_sent for step in phase)),
                "replicas": "identical" if answer.alike else "different",
                "held_back": answer.lacking_before,
                "lost": answer.lacking_after,
            }
        )
        start = end
    return rows


def _phase(step: Step) -> tuple[bool, str]:
    return step.changed, step.plan


def wrong(answer: Answer) -> str:
    """The faults of a training; empty if there are none."""
    plans = [step.plan for step in answer.steps if step.changed]
    if len(set(plans)) < 2:
        return "the plan did not follow the link"
    if not answer.alike:
        return "ranks followed other plans, or have other parameters"
    if answer.lacking_before <= _ROUNDING:
        return "no codec held anything back, so nothing is known of what it would have lost"
    if answer.lacking_after > _ROUNDING:
        return f"{answer.lacking_after:.2g} of a gradient never arrived"
    return ""


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.nodes < 2 or given.backward <= 0:
        parser.error("expected two nodes at least, and a backward pass that takes time")
    try:
        answer = run(given)
    except (RankFailed, ClusterError) as error:
        return exit_code("replanning.py", error)
    except KeyboardInterrupt:
        return 130
    rows = rows_of(answer, given)
    print_table(rows)
    print(
        f"replicas {'identical' if answer.alike else 'DIFFER'}; {answer.lacking_before:.2g} of a gradient was held "
        f"back at the end, and {answer.lacking_after:.2g} after everything was sent as it is"
    )
    if reason := wrong(answer):
        print(f"replanning.py: {reason}", file=sys.stderr)
        return 1
    if given.json:
        write_json(given.json, rows)
    return 0
