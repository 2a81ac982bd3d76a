# SPDX-License-Identifier: Apache-2.0
"""The processor time that a synchronisation's encoding and decoding takes by itself: what no runtime can save.

The engine does not count it, and what its threads take while four ranks share two cores is not what the codec takes.
So a rank measures the codec alone, while the others wait, and multiplies with the encodes and decodes of all graphs.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from models import GradientSet

from hipress._library import load_core

#: Elements of the tensor that is encoded and decoded: 64 MB, more than caches hold, as a model's gradients are.
_COUNT = 16_000_000
_REPEATS = 5


@dataclass(frozen=True)
class CodecSpeed:
    """Processor seconds per element of float32, in one thread."""

    encode_s: float
    decode_s: float


def codec_speed(text: str) -> CodecSpeed:
    """Of a codec alone, states included: medians of a few repetitions."""
    codec: Any = load_core().create_codec(text)
    values = np.random.default_rng(1).standard_normal(_COUNT, dtype=np.float32)
    before, after = ([np.zeros(_COUNT, np.float32) for _ in codec.states] for _ in range(2))
    payload = np.empty(codec.max_encoded_bytes(_COUNT), np.uint8)
    total = np.zeros(_COUNT, np.float32)
    encodes, decodes = [], []
    for step in range(1 + _REPEATS):  # The first one finds memory that was never touched.
        start = time.thread_time()
        size = codec.encode_into(values, before, after, payload, seed=1, step=step, tensor=0, first_element=0)
        encodes.append(time.thread_time() - start)
        start = time.thread_time()
        codec.decode_into(payload[:size], total, accumulate=True)
        decodes.append(time.thread_time() - start)
        before, after = after, before
    return CodecSpeed(statistics.median(encodes[1:]) / _COUNT, statistics.median(decodes[1:]) / _COUNT)


def codec_seconds(
    speed: CodecSpeed, gradients: GradientSet, topology: str, hosts: list[int], min_compress_bytes: int
) -> float:
    """Of all ranks together, for one synchronisation. `hosts`: of each rank."""
    world = len(hosts)
    elements = sum(one.count for one in gradients.gradients if 4 * one.count >= min_compress_bytes)
    encodes = decodes = 0
    # As many partitions as ranks: whatever their number, they are shared out so that each rank's work is the same.
    for rank in range(world):
        for task in load_core().build_topology(topology, rank, world, world, 0, hosts):
            if task["primitive"] == "merge":
                decodes += task["merged_messages"]
            elif not task["plain"]:
                encodes += task["primitive"] == "encode"
                decodes += task["primitive"] == "decode"
    return elements * (encodes * speed.encode_s + decodes * speed.decode_s) / world
