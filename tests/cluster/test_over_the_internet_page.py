# SPDX-License-Identifier: Apache-2.0
"""The guide's page on training over the internet: its commands work on two hosts with a slow line between them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import cluster, unavailable
from tests.docs import pages
from tests.launch.conftest import clean_environment

pytestmark = pytest.mark.slow

_PAGE = "docs/guide/over-the-internet.md"


@pytest.fixture
def far_apart() -> Iterator[Any]:
    """Two emulated hosts whose addresses are the page's."""
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    with cluster.Cluster(nodes=2, rate="20mbit", round_trip_ms=50.0) as made:
        yield made


@pytest.mark.thorough
def test_two_hosts_end_with_the_same_weights(far_apart: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("\n".join(pages.blocks(_PAGE, "python")[:1]))
    commands = [block for block in pages.blocks(_PAGE, "bash") if "torchrun --nnodes 2" in block]
    assert len(commands) == 2
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    variables = {**clean_environment(), "PATH": path, "OMP_NUM_THREADS": "1"}
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    # A process that enters a host leaves its working directory.
    started = [
        far_apart.popen(node, ["bash", "-euc", f"cd {tmp_path}\n{command}"], env=variables, **options)
        for node, command in enumerate(commands)
    ]
    try:
        printed = [process.communicate(timeout=180.0)[0].decode() for process in started]
    finally:
        for process in started:
            cluster.kill(process)
    assert [process.returncode for process in started] == [0, 0], "\n".join(printed)
    weights = [re.findall(r"weights (\S+)", text) for text in printed]
    assert len(weights[0]) == 1
    assert weights[0] == weights[1]
    assert "10.77.0.1/24" in printed[0]  # rank 0 names the network that gradients take
