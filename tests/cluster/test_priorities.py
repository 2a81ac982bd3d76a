# SPDX-License-Identifier: Apache-2.0
"""On a slow link a message takes long. A more urgent one still overtakes those that wait behind it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import cluster
from tests.cluster.nodes import unavailable

pytestmark = pytest.mark.slow

#: Rank 0 sends 80 tensors of a megabyte, the 40 less urgent ones first. A megabyte takes 0.2 s.
_PROGRAM = """
import json, pathlib, sys, time
import numpy as np
from hipress import _core, runtime

runtime.init(window_bytes=3 << 20, timeout=120)
engine = runtime.current().engine
specs = [
    _core.TensorSpec(f"w{index}", count=250_000, shape="[250000]", collective="broadcast", root=0, priority=index // 40)
    for index in range(80)
]
tensors = engine.declare(specs)
arrived = []
operations = []
for index, tensor in enumerate(tensors):
    values = np.full(250_000, index, np.float32)
    operations.append((engine.submit(tensor, values, values), index))
while operations:
    time.sleep(0.01)
    for each in list(operations):
        if engine.poll(each[0]):
            engine.wait(each[0])
            arrived.append(each[1])
            operations.remove(each)
if runtime.rank() == 1:
    pathlib.Path(sys.argv[1]).write_text(json.dumps(arrived))
runtime.shutdown()
"""


def test_urgent_tensors_overtake_on_a_slow_link(tmp_path: Path) -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    program, result = tmp_path / "rank.py", tmp_path / "arrived.json"
    program.write_text(_PROGRAM)
    with cluster.Cluster(nodes=2, rate="40mbit") as made:
        assert cluster.launch_on(made, [sys.executable, str(program), str(result)], timeout=120.0) == 0
    arrived = json.loads(result.read_text())
    # Of the others three are in the window, and some in the buffers of UCX and the kernel. More would not wait.
    overtaken = [index for index in arrived[:40] if index < 40]
    assert len(overtaken) <= 18, arrived
