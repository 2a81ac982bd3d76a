# SPDX-License-Identifier: Apache-2.0
"""Measures the accuracy of a training in every framework with every codec, and the bytes that it sends.

    python benchmarks/accuracy.py --json FILE
    python benchmarks/accuracy.py --framework mxnet --codec none,onebit --topology ring --seeds 1

The training is examples/FRAMEWORK/digits.py: the same network, images and learning rates, but each framework draws its
own initial weights and order of images. The ranks compare their replicas after each epoch; a difference ends the
benchmark. A row per framework, topology and codec has the columns

    accuracy_percent        on the test images, after the last epoch: the mean of the seeds
    accuracy_min_percent, accuracy_max_percent      the smallest and the largest
    bytes                   bytes sent per step and rank, on average
    ranks, epochs, seeds    the settings
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import framework_environment
from benchmarks.harness.report import Row, parse_names, print_table, write_json

EXAMPLES = Path(__file__).parents[2] / "examples"
CODECS = "none,onebit,tbq,terngrad,dgc,graddrop"
RANKS = 2
EPOCHS = 16
#: Batch size of each rank: a step has as many images as four ranks with the example's batches of 8.
BATCH_SIZE = 16
#: Steps of an epoch of 1,198 images with this batch size.
STEPS_PER_EPOCH = 37
#: Deadline of one training (seconds); it takes about ten.
DEADLINE = 600.0


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    frameworks = ",".join(framework_environment.FRAMEWORKS)
    parser.add_argument(
        "--framework", type=parse_names, default=frameworks, help="separated by commas (default: all three)"
    )
    parser.add_argument("--codec", type=parse_names, default=CODECS, help=f"separated by commas (default: {CODECS})")
    parser.add_argument(
        "--topology", type=parse_names, default="ps,ring", help="separated by commas (default: ps,ring)"
    )
    parser.add_argument("--seeds", type=int, default=2, help="trainings for each row (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def train(python: str, framework: str, codec: str, topology: str, seed: int) -> dict[str, Any]:
    """The report of digits.py. Raises CalledProcessError if it fails, for example because replicas differ."""
    variables = {**framework_environment.variables(framework), "HIPRESS_CHECK_REPLICAS": str(STEPS_PER_EPOCH)}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        launcher = [python, "-m", "hipress.cli", "run", "-np", str(RANKS), python]
        training = [str(EXAMPLES / framework / "digits.py"), "--codec", codec, "--topology", topology]
        amount = ["--epochs", str(EPOCHS), "--batch-size", str(BATCH_SIZE), "--seed", str(seed)]
        subprocess.run(
            [*launcher, *training, *amount, "--json", str(report)],
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            timeout=DEADLINE,
            check=True,
        )
        result: dict[str, Any] = json.loads(report.read_text())
        return result


def row(python: str, framework: str, codec: str, topology: str, seeds: int) -> Row:
    """The row of one setting, over all seeds."""
    reports = [train(python, framework, codec, topology, seed) for seed in range(seeds)]
    accuracies = [100 * float(report["test_accuracy"]) for report in reports]
    return {
        "framework": framework,
        "topology": topology,
        "codec": codec,
        "accuracy_percent": statistics.mean(accuracies),
        "accuracy_min_percent": min(accuracies),
        "accuracy_max_percent": max(accuracies),
        "bytes": round(statistics.mean(report["bytes_per_step_and_rank"] for report in reports)),
        "ranks": RANKS,
        "epochs": EPOCHS,
        "seeds": seeds,
    }


def main() -> int:
    """Runs the trainings of the command line. Returns the exit code."""
    given = arguments().parse_args()
    try:
        pythons = {framework: str(framework_environment.python(framework)) for framework in given.framework}
    except framework_environment.EnvironmentFailed as error:
        print(f"accuracy.py: {error}", file=sys.stderr)
        return 1
    rows: list[Row] = []
    for topology, codec, framework in itertools.product(given.topology, given.codec, pythons):
        rows.append(row(pythons[framework], framework, codec, topology, given.seeds))
        print(f"{framework} {topology} {codec}: {rows[-1]['accuracy_percent']:.2f} %", file=sys.stderr, flush=True)
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
