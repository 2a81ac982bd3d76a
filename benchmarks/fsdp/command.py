# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of FSDP2 as it is, and with its all-gather and reduce-scatter in block int8.

    python benchmarks/fsdp --nodes 4 --rate 1gbit --json FILE
    python benchmarks/fsdp --world 2 --steps 300 --text licences --json FILE

Each row is a training of a byte-level decoder with 25 million parameters (diloco/model.py). All trainings start from
the same weights and see the same sequences. The command makes the cluster (needs root); without --nodes the ranks are
processes of this machine. README.md describes the columns. Exit code 77: no cluster can be made here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path

from benchmarks.cluster import INTERFACE, Cluster, ClusterError
from benchmarks.fsdp.job import BFLOAT16, FSDP, SYSTEMS, Job, Trained
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, print_table, spread, write_json
from benchmarks.optimizers.model import TEXTS

_RANK = Path(__file__).with_name("rank.py")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: none)")
    parser.add_argument("--rate", default="1gbit", help="rate of the nodes' links (default: 1gbit)")
    parser.add_argument("--world", type=int, default=2, help="without --nodes: ranks on this machine (default: 2)")
    parser.add_argument(
        "--system", type=names_of("system", SYSTEMS), default=list(SYSTEMS), help=f"(default: {','.join(SYSTEMS)})"
    )
    parser.add_argument("--text", choices=tuple(TEXTS), default="help", help="(default: help)")
    for name, default, what in (
        ("steps", 12, "steps of each training, of which the first two are not timed"),
        ("sequences", 1, "sequences of each rank and step"),
        ("context", 32, "bytes of a sequence"),
        ("width", 512, "width of the model, a multiple of 64"),
        ("layers", 8, "of the model"),
        ("seed", 0, "seed of the first weights and of the sequences"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="learning rate of AdamW (default: 0.0003)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> list[Row]:
    """Runs all trainings. Raises RankFailed, ClusterError."""

    def command(port: int, result: str) -> tuple[str, ...]:
        job = Job(
            systems=given.system,
            text=given.text,
            steps=given.steps,
            sequences=given.sequences,
            context=given.context,
            width=given.width,
            layers=given.layers,
            learning_rate=given.learning_rate,
            seed=given.seed,
            interface="" if given.nodes is None else INTERFACE,
            gloo_port=port,
            result=result,
        )
        return (sys.executable, str(_RANK), job.to_json())

    with contextlib.ExitStack() as stack:
        network = None if given.nodes is None else stack.enter_context(Cluster(given.nodes, given.rate))
        answers = json.loads(run_job(command, network, world=given.world))
    return rows_of({name: Trained(**answer) for name, answer in answers.items()}, given)


def rows_of(trained: dict[str, Trained], given: argparse.Namespace) -> list[Row]:
    """One row for each training. The speedups refer to FSDP2 as it is, in both types."""
    steps = {name: statistics.median(one.seconds) for name, one in trained.items()}
    return [
        {
            "system": name,
            "nodes": given.nodes,
            "rate": None if given.nodes is None else given.rate,
            "world": given.world if given.nodes is None else given.nodes,
            "parameters": one.parameters,
            "text": given.text,
            "steps": given.steps,
            "rank_tokens": given.sequences * given.context,
            **spread("time", one.seconds),
            "fp32_speedup_ratio": steps[FSDP] / steps[name] if FSDP in steps else None,
            "bf16_speedup_ratio": steps[BFLOAT16] / steps[name] if BFLOAT16 in steps else None,
            "cpu_s": one.cpu_seconds,
            "step_bytes": one.sent_bytes,
            "loss_nats": one.loss,
            "learning_rate": given.learning_rate,
            "seed": given.seed,
        }
        for name, one in trained.items()
    ]


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.width % 64 or given.steps < 3 or min(given.sequences, given.context, given.layers) < 1:
        parser.error("--width must be a multiple of 64, --steps at least 3, the other numbers at least 1")
    try:
        rows = run(given)
    except (RankFailed, ClusterError) as error:
        return exit_code("fsdp", error)
    except KeyboardInterrupt:
        return 130
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
