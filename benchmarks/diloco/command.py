# SPDX-License-Identifier: Apache-2.0
"""Measures trainings that synchronise every H steps, and one that synchronises in every step, over slow links.

    python benchmarks/diloco.py --nodes 4 --rate 100mbit --round-trip 50 --json FILE

Each row is a training of a byte-level decoder (model.py) on the text of Python's help. All trainings start from the
same weights and see the same sequences. The command makes the cluster (needs root); without --nodes the ranks are
processes of this machine. README.md describes the columns. Exit code 77: no cluster can be made here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from benchmarks.cluster import INTERFACE, Cluster, ClusterError
from benchmarks.diloco.job import SYSTEMS, Job, Trained
from benchmarks.diloco.rows import rows_of
from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, print_table, write_json

_RANK = Path(__file__).with_name("rank.py")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: none)")
    parser.add_argument("--rate", default="100mbit", help="rate of the nodes' links (default: 100mbit)")
    parser.add_argument(
        "--round-trip", type=float, default=50, metavar="MS", help="round trip between two nodes in ms (default: 50)"
    )
    parser.add_argument("--world", type=int, default=4, help="without --nodes: ranks on this machine (default: 4)")
    parser.add_argument(
        "--system", type=names_of("system", SYSTEMS), default=list(SYSTEMS), help=f"(default: {','.join(SYSTEMS)})"
    )
    for name, default, what in (
        ("ddp-steps", 200, "steps of DDP, which takes far fewer in the same time"),
        ("steps", 800, "of the others"),
        ("sync-every", 50, "H, steps between two synchronisations of a parameter"),
        ("fragments", 1, "P, of streaming"),
        ("overlap-steps", 45, "τ, of streaming"),
        ("sequences", 2, "sequences of each rank and step"),
        ("context", 32, "bytes of a sequence"),
        ("width", 64, "width of the model, a multiple of 64"),
        ("layers", 2, "of the model"),
        ("every", 25, "steps between two points of the curve"),
        ("seed", 0, "seed of the first weights and of the sequences"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what} (default: {default})")
    parser.add_argument(
        "--streaming-codec",
        metavar="CODEC",
        default="bf16",
        help="codec of streaming (default: bf16, DDP's precision)",
    )
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="learning rate of AdamW (default: 0.002)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> list[Row]:
    """Runs all trainings. Raises RankFailed, ClusterError."""

    def command(port: int, result: str) -> tuple[str, ...]:
        job = Job(
            systems=given.system,
            steps=given.steps,
            ddp_steps=given.ddp_steps,
            sequences=given.sequences,
            context=given.context,
            width=given.width,
            layers=given.layers,
            learning_rate=given.learning_rate,
            sync_every=given.sync_every,
            fragments=given.fragments,
            overlap_steps=given.overlap_steps,
            streaming_codec=given.streaming_codec,
            every=given.every,
            seed=given.seed,
            interface="" if given.nodes is None else INTERFACE,
            gloo_port=port,
            result=result,
        )
        return (sys.executable, str(_RANK), job.to_json())

    with contextlib.ExitStack() as stack:
        network = None
        if given.nodes is not None:
            network = stack.enter_context(Cluster(given.nodes, given.rate, given.round_trip))
        answers = json.loads(run_job(command, network, world=given.world))
    return rows_of({name: _trained(answer) for name, answer in answers.items()}, given)


def _trained(answer: dict[str, object]) -> Trained:
    """The training of a rank's answer. JSON's keys are texts, so step numbers are converted back."""
    maps = {name: {int(step): value for step, value in answer[name].items()} for name in ("times_s", "losses")}  # type: ignore[attr-defined]
    return Trained(**{**answer, **maps})  # type: ignore[arg-type]


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.width % 64 or min(given.ddp_steps // 2, given.sequences, given.context, given.layers, given.every) < 1:
        parser.error("--width must be a multiple of 64, --ddp-steps at least 2, the other numbers at least 1")
    if given.ddp_steps // 2 % given.every or given.ddp_steps % 2 or given.steps < given.ddp_steps:
        parser.error(
            "half of --ddp-steps, at which others' losses are compared, must be a multiple of --every; --steps "
            "may not be below --ddp-steps"
        )
    try:
        rows = run(given)
    except (RankFailed, ClusterError) as error:
        return exit_code("diloco.py", error)
    except KeyboardInterrupt:
        return 130
    print_table(rows, leave_out=("losses_nats", "times_s"))
    if given.json is not None:
        write_json(given.json, rows)
    return 0
