# SPDX-License-Identifier: Apache-2.0
"""The guide's page on torchrun: its command works on two hosts, and sends the promised bytes over the link between
them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import cluster, sent_bytes
from tests.docs import pages
from tests.launch.conftest import clean_environment

pytestmark = pytest.mark.slow

_PAGE = "docs/guide/torchrun.md"
_LINE = re.compile(r"rank (\d): loss ([\d.]+) to ([\d.]+); (\d+) bytes in \d+ steps .* checksum (\w{8})")


def _train(nodes: Any, directory: Path, codec: str) -> tuple[dict[str, tuple[str, ...]], int]:
    """The lines that each rank printed, and the bytes that the first host has sent over its link."""
    (directory / "train.py").write_text(pages.blocks(_PAGE, "python")[0])
    variables = {
        **clean_environment(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "MASTER": cluster.network.address(0),
        "DEVICE": cluster.INTERFACE,
        "OMP_NUM_THREADS": "1",
        "CODEC": codec,
    }
    before = sent_bytes(nodes, 0, cluster.INTERFACE)
    # A process that enters a host leaves its working directory.
    command = ["bash", "-euc", f"cd {directory}\n{pages.blocks(_PAGE, 'bash')[0]}"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = [nodes.popen(node, command, env={**variables, "NODE": str(node)}, **options) for node in range(2)]
    try:
        printed = [process.communicate(timeout=120.0)[0].decode() for process in started]
    finally:
        for process in started:
            cluster.kill(process)
    assert [process.returncode for process in started] == [0, 0], "\n".join(printed)
    found = {match[0]: match[1:] for match in _LINE.findall("\n".join(printed))}
    assert sorted(found) == ["0", "1"], "\n".join(printed)
    return found, sent_bytes(nodes, 0, cluster.INTERFACE) - before


@pytest.mark.thorough
def test_two_nodes_send_a_tenth_over_their_link(nodes: Any, tmp_path: Path) -> None:
    ranks, link = _train(nodes, tmp_path, "onebit")
    assert len({checksum for *_, checksum in ranks.values()}) == 1
    for first, last, sent, _ in ranks.values():
        assert float(last) < float(first)
        assert 0 < int(sent) < link
    _, plain = _train(nodes, tmp_path, "none")
    assert link < plain / 10
