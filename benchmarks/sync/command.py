# SPDX-License-Identifier: Apache-2.0
"""Measures the time of averaging a model's gradients over all ranks, with HiPress and with peers in the same run.

    python benchmarks/sync.py --nodes 4 --rate 1gbit --model vgg19 --codec onebit --topology best \\
        --peer gloo-fp32,gloo-fp16,powersgd,horovod --json FILE
    python benchmarks/sync.py --world 4 --size 100M --codec none,fp16,onebit --peer gloo-fp32,gloo-fp16 --json FILE

The command makes the cluster (--nodes; needs root) and starts the ranks. benchmarks/README.md describes the measurement
and the columns. Exit code 77: no cluster can be made here; 3: a peer could not be measured, and only the others were.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.cluster import INTERFACE, Cluster, ClusterError, Network
from benchmarks.harness import horovod_environment
from benchmarks.harness.arguments import BEST
from benchmarks.harness.averaging_rows import Setting, row, unavailable_row, with_best
from benchmarks.harness.rank_jobs import EXIT_PEER_UNAVAILABLE, RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, format_size, print_table, write_json
from benchmarks.harness.topologies import candidates
from benchmarks.sync.arguments import arguments, check
from benchmarks.sync.job import Answer, Job
from benchmarks.sync.memory import memory_warning

_RANK = Path(__file__).with_name("rank.py")


def _run(job: Job, python: str, given: argparse.Namespace, network: Network | None) -> Answer:
    """Runs a job with ranks of the interpreter `python`. Raises RankFailed."""

    def command(port: int, result: str) -> tuple[str, ...]:
        return (python, str(_RANK), replace(job, gloo_port=port, result=result).to_json())

    return Answer.from_json(run_job(command, network, world=given.world, ranks_per_node=given.ranks_per_node))


def _measure(job: Job, given: argparse.Namespace, network: Network | None) -> tuple[Answer, str]:
    """The answer, and the reason why Horovod is missing (empty if it is not missing)."""
    together = replace(job, peers=[peer for peer in job.peers if peer != "horovod"])
    answer = _run(together, sys.executable, given, network)
    if together.peers == job.peers:
        return answer, ""
    # Horovod has a separate environment and separate processes, so it cannot take turns with the other systems.
    try:
        python = horovod_environment.python("torch")
        alone = _run(replace(job, ours=[], tried=[], peers=["horovod"]), str(python), given, network)
    except (horovod_environment.BuildFailed, RankFailed) as error:
        return answer, str(error)
    return replace(answer, measured=answer.measured + alone.measured), ""


def _rows(answer: Answer, missing: str, given: argparse.Namespace, job: Job) -> list[Row]:
    gradients = job.gradients
    setting = Setting(
        model=given.model or f"one tensor of {format_size(given.size)}",
        size=gradients.size,
        nodes=given.nodes or 1,
        ranks_per_node=given.ranks_per_node,
        rate=given.rate if given.nodes else None,
        release=given.release,
        backward_s=gradients.backward_s,
        cores=len(os.sched_getaffinity(0)),
    )
    peers = {one.system: one for one in answer.measured if one.topology is None}
    first = peers.get(job.peers[0]) if job.peers else None
    rows = [row(one, setting, None if first is None else first.time_s) for one in answer.measured]
    if missing:
        rows.append(unavailable_row("horovod", setting, missing))
    rows = with_best(rows, answer.trials) if BEST in given.topology else rows
    # Peers have the order of the command line.
    return sorted(rows, key=lambda one: job.peers.index(str(one["system"])) if one["system"] in job.peers else -1)


def main() -> int:
    """Runs the measurement of the command line. Returns the exit code."""
    parser = arguments((__doc__ or "").partition("\n")[0])
    given = parser.parse_args()
    check(parser, given)
    job = Job(
        model=given.model or "",
        size=given.size,
        ours=[[codec, topology] for codec in given.codec for topology in given.topology if topology != BEST],
        tried=[
            [codec, topology]
            for codec in given.codec
            if BEST in given.topology
            for topology in candidates(codec, given.nodes or 1, given.ranks_per_node)
        ],
        peers=given.peer,
        partitions=given.partitions,
        min_compress_bytes=given.min_compress_bytes,
        release=given.release,
        repeats=given.repeat,
        timeout=given.timeout,
        interface=INTERFACE if given.nodes else "",
        gloo_port=0,
        result="",
    )
    warning = memory_warning(job, given.world)
    if warning:
        print(f"sync.py: {warning}", file=sys.stderr, flush=True)
    try:
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(Cluster(given.nodes, given.rate)) if given.nodes else None
            answer, missing = _measure(job, given, network)
    except (RankFailed, ClusterError) as error:
        return exit_code("sync.py", error)
    except KeyboardInterrupt:
        return 130
    rows = _rows(answer, missing, given, job)
    for codec, tried in answer.trials.items():
        times = ", ".join(f"{topology} {seconds:.3g} s" for topology, seconds in tried.items())
        print(f"topologies tried with {codec}: {times}")
    place = f"{given.nodes} nodes at {given.rate}" if given.nodes else "this machine"
    print(f"{job.gradients.size / 1e6:g} MB of float32, averaged over {place}, OMP_NUM_THREADS=1 for all:")
    print_table(
        rows, leave_out=("codec", "size_bytes", "algbw_gbps", "trials", "unavailable")
    )  # system and time contain the same
    if given.json:
        write_json(given.json, rows)
    if missing:
        print(f"sync.py: horovod was not measured: {missing}", file=sys.stderr)
        return EXIT_PEER_UNAVAILABLE
    return 0
