# SPDX-License-Identifier: Apache-2.0
"""A trace of HIPRESS_TRACE shows synchronisation inside backward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

mx = pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.mxnet as hp  # noqa: E402
from tests.mxnet.ranks import run  # noqa: E402

WORLD = 2


def _traced_steps() -> None:
    hp.init()
    net = mx.gluon.nn.HybridSequential()
    for _ in range(8):
        net.add(mx.gluon.nn.Dense(600, in_units=600))
    net.initialize()
    hp.broadcast_parameters(net.collect_params())
    trainer = hp.DistributedTrainer(net.collect_params(), "sgd", codec="onebit", partitions=2)
    inputs = mx.nd.random.uniform(shape=(256, 600))
    for _ in range(3):
        with mx.autograd.record():
            loss = net(inputs).square().mean()
        loss.backward()
        trainer.step(1)
    mx.nd.waitall()


def _inside(span: dict[str, Any], outer: dict[str, Any]) -> bool:
    return bool(outer["ts"] <= span["ts"] and span["ts"] + span["dur"] <= outer["ts"] + outer["dur"])


def test_encoding_and_sending_happen_inside_backward(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run(_traced_steps, WORLD, HIPRESS_TRACE=str(file))
    spans = [event for event in json.loads(file.read_text()) if event["ph"] == "X"]
    for rank in range(WORLD):
        of_rank = [span for span in spans if span["pid"] == rank]
        backward = [span for span in of_rank if span["name"] == "backward"]
        assert len(backward) == 3
        for outer in backward[1:]:  # in the first step, ranks agree on the tensors before they push gradients
            for primitive in ("encode", "send"):
                assert any(span["name"] == primitive and _inside(span, outer) for span in of_rank), (rank, primitive)
            # A gradient is on its way before the last gradient is computed: a send begins before the last encode.
            sends = sorted(s["ts"] for s in of_rank if s["name"] == "send" and _inside(s, outer))
            encodes = sorted(s["ts"] for s in of_rank if s["name"] == "encode" and s["ts"] < outer["ts"] + outer["dur"])
            assert sends[0] < encodes[-1]
