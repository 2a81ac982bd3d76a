# SPDX-License-Identifier: Apache-2.0
"""The meeting of ranks in torch.distributed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.ranks import clean_environment, free_port

_ROOT = Path(__file__).parents[3]

_PROGRAM = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from benchmarks.harness.torch_meeting import gather, join

join(30.0, int(sys.argv[1]))
torch.optim.AdamW([torch.zeros(2)])
gather("a rank's words")
dist.destroy_process_group()
names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
print([name for name in names if "gloo" in name])
"""


def test_no_thread_of_the_group_outlives_it() -> None:
    """A thread of the group that releases a Python object after the end of Python aborts the rank."""
    environment = clean_environment() | {"HIPRESS_RANK": "0", "HIPRESS_SIZE": "1"}
    command = [sys.executable, "-c", _PROGRAM, str(free_port())]
    done = subprocess.run(command, env=environment, cwd=_ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
