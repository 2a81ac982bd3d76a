# SPDX-License-Identifier: Apache-2.0
"""HIPRESS_TRACE makes one valid file with every rank's queues; it shows synchronisation inside backward."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.overlap import check_that_backward_overlaps
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

WORLD = 3


def _traced_steps() -> None:
    hp.init()
    torch.manual_seed(0)
    # Backward releases the last layers' gradients first, and still computes the first layers' gradients.
    model = nn.Sequential(*(nn.Linear(600, 600) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hp.DistributedOptimizer(optimizer, model.named_parameters(), codec="onebit", partitions=2)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(64, 600)).square().mean().backward()
        optimizer.step()


def test_a_trace_shows_every_queue_of_every_rank(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text("left by an earlier run")
    run(_traced_steps, WORLD, HIPRESS_TRACE=str(file))
    events = json.loads(file.read_text())
    spans = [event for event in events if event["ph"] == "X"]
    names = {
        (event["pid"], event["args"]["name"])
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    for rank in range(WORLD):
        assert {(rank, "Q_commu send"), (rank, "Q_commu recv"), (rank, "framework")} <= names
        assert any(pid == rank and name.startswith("Q_comp") for pid, name in names)
        of_rank = [span for span in spans if span["pid"] == rank]
        for primitive in ("encode", "decode", "merge", "send", "recv"):
            found = [span for span in of_rank if span["name"] == primitive and span["args"]["step"] == 1]
            assert found, (rank, primitive)
            assert all(span["dur"] >= 0 and "tensor" in span["args"] and "partition" in span["args"] for span in found)
        weights = [span for span in of_rank if span["name"] == "send" and span["args"]["tensor"] == "0.weight"]
        assert weights
        assert all(0.9 < span["args"]["bytes"] / (600 * 600 / 8 / 2) < 1.1 for span in weights)


def test_encoding_and_sending_happen_inside_backward(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run(_traced_steps, WORLD, HIPRESS_TRACE=str(file))
    check_that_backward_overlaps(file, WORLD, 3)
