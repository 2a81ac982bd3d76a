# SPDX-License-Identifier: Apache-2.0
"""A process ends with an exception: the other ranks' errors name the exception, and do not claim a call of
shutdown()."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ranks import clean_environment

pytestmark = pytest.mark.slow

_SCRIPT = """
import sys, threading
import numpy as np
from hipress import _core, runtime
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.synchronizer import TensorList

runtime.init()
tensors = TensorList([TensorDescription("w", "float32", 3, "[3]")])

def train():
    for step in range(5):
        if runtime.rank() == 1 and step == 2:
            raise ValueError("no such file")
        values = np.ones(3, np.float32)
        tensors.wait(runtime.current().engine.submit(tensors.handle(0), values, values))

how = sys.argv[1]
if how == "thread" and runtime.rank() == 1:
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
elif how == "finally":
    try:
        train()
    finally:
        runtime.shutdown()
else:
    train()
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "(it ended with ValueError: no such file)"),
        ("thread", "(it ended with ValueError: no such file in a thread)"),
        ("finally", "(it called shutdown() while it handled ValueError: no such file)"),
    ],
)
def test_the_other_ranks_are_told_what_ended_a_process(tmp_path: Path, how: str, said: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT)
    command = [
        str(Path(sys.executable).with_name("hipress")),
        "run",
        "-np",
        "2",
        "--",
        sys.executable,
        str(script),
        how,
    ]
    environment = clean_environment()
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert f"PeerLost: rank 1 has left the job {said}" in done.stdout + done.stderr
