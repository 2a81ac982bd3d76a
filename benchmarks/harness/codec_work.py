# SPDX-License-Identifier: Apache-2.0
"""The processor time of encoding and decoding alone in a synchronisation: the lower bound for every runtime.

The engine does not count it, and the time of its threads includes waiting for the shared cores. So a rank measures the
codec while the other ranks wait, and multiplies by the encodes and decodes of all task graphs.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.models import GradientSet
from hipress._library import load_core
from hipress.adapter.state_blocks import length_of

#: Elements of the tensor: 64 MB exceed the caches, as the gradients of a model do.
_COUNT = 16_000_000
_REPEATS = 5


@dataclass(frozen=True)
class CodecSpeed:
    """A codec's processor seconds per element of float32, in one thread."""

    encode_s: float
    decode_s: float


def codec_speed(text: str) -> CodecSpeed | None:
    """The speed of a codec with its states: medians of a few repetitions. None: it encodes nothing, as powersgd."""
    codec: Any = load_core().create_codec(text)
    if codec.low_rank is not None:
        return None
    values = np.random.default_rng(1).standard_normal(_COUNT, dtype=np.float32)
    lengths = [length_of(_COUNT, codec.state_block(state)) for state in codec.states]
    before, after = ([np.zeros(length, np.float32) for length in lengths] for _ in range(2))
    payload = np.empty(codec.max_encoded_bytes(_COUNT), np.uint8)
    total = np.zeros(_COUNT, np.float32)
    encodes, decodes = [], []
    for step in range(1 + _REPEATS):  # the first step touches new memory
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
    """Processor seconds of all ranks for one synchronisation. `hosts`: the host of each rank."""
    world = len(hosts)
    elements = sum(one.count for one in gradients.gradients if 4 * one.count >= min_compress_bytes)
    encodes = decodes = 0
    # With one partition per rank all ranks do the same work, as with any other number.
    for rank in range(world):
        for task in load_core().build_topology(topology, rank, world, world, 0, hosts):
            if task["primitive"] == "merge":
                decodes += task["merged_messages"]
            elif not task["plain"]:
                encodes += task["primitive"] == "encode"
                decodes += task["primitive"] == "decode"
    return elements * (encodes * speed.encode_s + decodes * speed.decode_s) / world
