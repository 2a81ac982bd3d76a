# SPDX-License-Identifier: Apache-2.0
"""Several trainings by a framework's example digits.py in one job, because importing a framework takes as long as a
training."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.docs import pages

#: The first argument is the folder of digits.py, the others are the options of a training each.
_JOB = """
import json, sys
sys.path.insert(0, sys.argv[1])
import digits
for options in sys.argv[2:]:
    digits.main(json.loads(options))
"""


def train(
    framework: str, folder: Path, trainings: Mapping[str, Sequence[str]], *, timeout: float, python: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Trains on two ranks once for each of `trainings`, which has options of digits.py. Returns digits.py's reports.

    `folder` gets files. `timeout` is the deadline of all trainings together, in seconds. `python`: options of Python.
    """
    job = folder / "trainings.py"
    job.write_text(_JOB)
    reports = {name: folder / f"{name}.json" for name in trainings}
    options = [json.dumps([*words, "--json", str(reports[name])]) for name, words in trainings.items()]
    launcher = [sys.executable, *python, "-m", "hipress.cli", "run", "-np", "2"]
    example = pages.ROOT / "examples" / framework
    command = [*launcher, sys.executable, *python, str(job), str(example), *options]
    # The ranks compare their replicas after every epoch, and a difference is an error.
    pages.run(command, folder, timeout, variables={"HIPRESS_CHECK_REPLICAS": "37"})
    return {name: json.loads(report.read_text()) for name, report in reports.items()}
