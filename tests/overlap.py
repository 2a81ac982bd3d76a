# SPDX-License-Identifier: Apache-2.0
"""A trace of HIPRESS_TRACE shows that HiPress sends gradients while the framework computes others."""

from __future__ import annotations

import json
from pathlib import Path


def check_that_backward_overlaps(file: Path, world_size: int, steps: int) -> None:
    """Fails unless each rank of the trace sends inside backward and begins to encode another gradient after that, still
    inside backward: gradients are on their way before the last one is computed.

    Each rank must do so in one of the `steps`. In another one a busy machine may leave no core to its threads.
    """
    spans = [event for event in json.loads(file.read_text()) if event["ph"] == "X"]
    for rank in range(world_size):
        of_rank = [span for span in spans if span["pid"] == rank]
        backward = [(span["ts"], span["ts"] + span["dur"]) for span in of_rank if span["name"] == "backward"]
        assert len(backward) == steps
        sent = [(span["ts"], span["ts"] + span["dur"]) for span in of_rank if span["name"] == "send"]
        encoded = [span["ts"] for span in of_rank if span["name"] == "encode"]
        assert any(
            begin <= send_begin and send_end < encode_begin < end
            for begin, end in backward
            for send_begin, send_end in sent
            for encode_begin in encoded
        ), f"rank {rank}: backward took {backward}; it sent in {sent} and began to encode at {encoded}"
