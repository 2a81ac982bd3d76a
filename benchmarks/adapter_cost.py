# SPDX-License-Identifier: Apache-2.0
"""What a framework's adapter costs of its own: processor time per tensor and step, with many one-element tensors.

    python benchmarks/adapter_cost.py --json FILE
    python benchmarks/adapter_cost.py --framework torch,tensorflow

One process of each framework is a world of its own, so that nothing travels (adapter_cost_steps.py); those that cannot
be installed beside torch have environments (framework_environment.py). It takes steps of plain training and of
distributed training in turn. A row per framework, with the columns

    alone, distributed      a step without HiPress, and with it
    adapter_per_tensor      the differences of neighbouring steps, divided by the tensors: the adapter, and the engine's
                            handling of each tensor
    tensors, steps          what was measured

Times are processor time of all threads, because the machine may have other work, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import framework_environment
from report import Row, parse_names, print_table, spread, write_json

STEPS = Path(__file__).with_name("adapter_cost_steps.py")
#: For one framework's process, which takes some ten seconds.
DEADLINE = 900.0


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    frameworks = ",".join(framework_environment.FRAMEWORKS)
    parser.add_argument("--framework", type=parse_names, default=frameworks, help="by commas (default: all three)")
    parser.add_argument("--tensors", type=int, default=1000, help="of one element each (default: 1000)")
    parser.add_argument("--steps", type=int, default=50, help="of each kind (default: 50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def measure(framework: str, tensors: int, steps: int) -> Row:
    """Raises EnvironmentFailed; CalledProcessError if the framework's process fails."""
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
    """Measure; the exit code."""
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


if __name__ == "__main__":
    sys.exit(main())
