# SPDX-License-Identifier: Apache-2.0
"""Measures the effect of codecs on trainings with SGD, momentum and AdamW, with and without error feedback.

    python benchmarks/optimizers.py --json FILE
    python benchmarks/optimizers.py --codec none,onebit --optimizer adamw

Each row is a training of a character model with a million parameters (model.py) on the text of Python's help, or with
`--text licences` on the licence texts of PyTorch's package. All trainings start from the same weights and see the same
sequences. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from benchmarks.harness.arguments import names_of
from benchmarks.harness.rank_jobs import RankFailed, exit_code, run_job
from benchmarks.harness.report import Row, parse_names, print_table, write_json
from benchmarks.optimizers.job import DDP, OPTIMIZERS, Job, Trained, Trial, trials
from benchmarks.optimizers.own import FROZEN_AFTER, OWN, ZERO_ONE_EVERY

_RANK = Path(__file__).with_name("rank.py")
#: Codecs with default options, without error feedback, and with options that suit these gradients better.
CODECS = (
    *("none", "fp16", "bf16", "int8", "fp8_e4m3", "int4", "fp4_e2m1", "terngrad(bitwidth=4)", "terngrad"),
    *("onebit", "onebit(error_feedback=false)"),
    *("tbq", "tbq(error_feedback=false)", "tbq(threshold=0.002)", "tbq(threshold=0.002, error_feedback=false)"),
    *("graddrop", "graddrop(error_feedback=false)", "graddrop(ratio=0.01)"),
    *("graddrop(ratio=0.01, error_feedback=false)",),
    *("dgc", "dgc(error_feedback=false)"),
    *("powersgd", "OneBitAdam"),
)
_CODECS = f"codecs, and optimizers of hipress.torch.optim ({', '.join(OWN)}), by commas (default: a selection)"


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--codec", type=parse_names, default=list(CODECS), help=_CODECS)
    parser.add_argument(
        "--optimizer",
        type=names_of("optimizer", list(OPTIMIZERS)),
        default=list(OPTIMIZERS),
        help=f"by commas (default: {','.join(OPTIMIZERS)})",
    )
    parser.add_argument("--text", choices=("help", "licences"), default="help", help="(default: help)")
    parser.add_argument("--ranks", type=int, default=4, help="processes of this machine (default: 4)")
    parser.add_argument("--steps", type=int, default=150, help="steps of each training (default: 150)")
    parser.add_argument("--sequences", type=int, default=4, help="sequences of each rank and step (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first weights and sequences (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def run(given: argparse.Namespace) -> list[Row]:
    """Runs all trainings. Raises RankFailed."""
    todo = trials([DDP, *given.codec], given.optimizer)

    def command(port: int, result: str) -> tuple[str, ...]:
        job = Job(todo, given.text, given.steps, given.sequences, given.seed, port, result)
        return (sys.executable, str(_RANK), job.to_json())

    answers = json.loads(run_job(command, None, world=given.ranks))
    return rows_of(todo, [Trained(**answer) for answer in answers], given)


def rows_of(todo: list[Trial], trained: list[Trained], given: argparse.Namespace) -> list[Row]:
    """One row for each training. `above_ddp_nats`: the difference to the loss of DDP with the same optimizer."""
    dense = {trial.name: one.loss for trial, one in zip(todo, trained, strict=True) if trial.system == DDP}
    rows: list[Row] = []
    for trial, one in zip(todo, trained, strict=True):
        of_ddp = dense["momentum" if trial.name == "momentum-twice" else trial.name]
        own = OWN.get(trial.system)
        rows.append(
            {
                "optimizer": trial.name,
                "class": trial.optimizer,
                "learning_rate": trial.learning_rate,
                "momentum": trial.momentum,
                "codec": None if trial.system == DDP else own.codec if own else trial.system,
                "system": trial.system if own or trial.system == DDP else "hipress",
                "frozen_after": FROZEN_AFTER if own and own.frozen else None,
                "loss_nats": one.loss,
                "above_ddp_nats": None if one.loss is None or of_ddp is None else one.loss - of_ddp,
                "bytes": one.bytes_sent,
                "bytes_frozen": one.bytes_frozen,
                "text": given.text,
                "parameters": one.parameters,
                "ranks": given.ranks,
                "steps": given.steps,
                "sequences": given.sequences,
                "seed": given.seed,
                "python": platform.python_version(),
            }
        )
    return rows


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if "ZeroOneAdam" in given.codec and given.steps % ZERO_ONE_EVERY:
        parser.error(
            f"--steps {given.steps}: ZeroOneAdam takes a multiple of {ZERO_ONE_EVERY}, so that ranks agree at the end"
        )
    try:
        rows = run(given)
    except RankFailed as error:
        return exit_code("optimizers.py", error)
    except KeyboardInterrupt:
        return 130
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
