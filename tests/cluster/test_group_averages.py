# SPDX-License-Identifier: Apache-2.0
"""Averages over a Gloo group of two hosts with two ranks each: the network interface counts the bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hipress import _core
from tests.cluster.nodes import cluster, unavailable
from tests.tiers import thorough

pytestmark = pytest.mark.slow

_PROGRAM = Path(__file__).with_name("group_average_program.py")
_ELEMENTS = 4_000_000


@pytest.mark.parametrize("codec", ["onebit", thorough("fp16")])
def test_hierarchical_sends_a_tensor_once_from_each_host(tmp_path: Path, codec: str) -> None:
    """Each of a host's two ranks sends half a tensor to the owners and half of the average. Topology "ps" sends twice
    as much."""
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    result = tmp_path / "bytes"
    command = [sys.executable, str(_PROGRAM), codec, str(_ELEMENTS), str(result)]
    root = str(Path(__file__).parents[2])
    with cluster.Cluster(nodes=2, rate="1gbit") as made:
        assert cluster.launch_on(made, command, ranks_per_node=2, env={"PYTHONPATH": root}, timeout=120.0) == 0
    found = json.loads(result.read_text())
    encoded = _core.create_codec(codec).max_encoded_bytes(_ELEMENTS)
    # The tolerance covers packet headers and the acknowledgements for the other host's packets.
    assert found["hierarchical"] == pytest.approx(encoded, rel=0.1)
    assert found["ps"] == pytest.approx(2 * encoded, rel=0.1)
