# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a framework's adapter: processor time per tensor and step, with many one-element tensors.

    python benchmarks/adapter_cost.py --json FILE
    python benchmarks/adapter_cost.py --framework torch,tensorflow

One process per framework is the only rank of its job, so it sends no messages (adapters/cost_steps.py). Frameworks that
cannot be installed beside torch have separate environments (harness/framework_environment.py). The process takes steps
of plain training and of distributed training in turn. Each framework has a row with the columns

    alone, distributed      a step without HiPress, and with it
    adapter_per_tensor      the differences of neighbouring steps, divided by the number of tensors: the cost of
                            the adapter and of the engine for each tensor
    tensors, steps          the settings

Times are processor time of all threads, because other work on the machine changes them least.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import framework_environment
from benchmarks.harness.report import Row, parse_names, print_table, spread, write_json

STEPS = Path(__file__).with_name("cost_steps.py")
#: Deadline of a framework's process (seconds); it takes about ten.
DEADLINE = 900.0


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    frameworks = ",".join(framework_environment.FRAMEWORKS)
    parser.add_argument(
        "--framework", type=parse_names, default=frameworks, help="separated by commas (default: all three)"
    )
    parser.add_argument("--tensors", type=int, default=1000, help="number of tensors of one element (default: 1000)")
    parser.add_argument("--steps", type=int, default=50, help="number of plain and of distributed steps (default: 50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def measure(framework: str, tensors: int, steps: int) -> Row:
    """The row of a framework. Raises EnvironmentFailed, or CalledProcessError if the framework's process fails."""
    command = [framework_environment.python(framework), STEPS, framework, str(tensors), str(steps)]
    env = {**os.environ, **framework_environment.variables(framework)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=DEADLINE, check=True)
    pairs = json.loads(done.stdout)
    return {
        "framework": framework,
        **spread("alone", [alone for alone, _ in pairs]),
        **spread("distributed", [distributed for _, distributed in pairs]),
        **spread("adapter_per_tensor", [(distributed - alone) / tensors for alone, distributed in pairs]),
        "tensors": tensors,
        "steps": len(pairs),
    }


def main() -> int:
    """Measures. Returns the exit code."""
    given = arguments().parse_args()
    try:
        rows = [measure(framework, given.tensors, given.steps) for framework in given.framework]
    except framework_environment.EnvironmentFailed as error:
        print(f"adapter_cost.py: {error}", file=sys.stderr)
        return 1
    print_table(rows)
    if given.json is not None:
        write_json(given.json, rows)
    return 0
