# SPDX-License-Identifier: Apache-2.0
"""Measures a stream of weight versions: bytes, and the time of publisher and follower as multiples of memcpy.

    python benchmarks/weight_stream.py --size 512M --json FILE

The model has bfloat16 values. Before each version a share of its elements changes, at random places. Versions go
through memory, so that no disk is measured; publisher and follower have one thread, whose processor time counts. A row
per share has the columns

    sent_percent            bytes of a version, as a share of the model's bytes
    publish_gbps            model bytes that a core publishes in a second: comparing, checksums, encoding
    follow_gbps             the same for the follower: checking, checksums, applying
    publish_memcpy_ratio    time of publishing divided by the time of memcpy of the model
    follow_memcpy_ratio     the same for the follower
    memcpy_ms               median, in milliseconds
    size_bytes, tensors, repeats

memcpy runs before each version. Ratios are medians of the ratios of neighbouring measurements. The follower's model is
compared with the publisher's, byte by byte, after the last version.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.harness.report import Row, parse_size, print_table, write_json
from hipress.weights import Follower, Publisher, Weight
from hipress.weights.store import name_of
from hipress.weights.version import Buffer

SHARES = (0.0, 0.001, 0.01, 0.05, 0.3)
TENSORS = 16
WARM_UPS = 2


class Memory(dict[str, bytes]):
    """A store in this process."""

    def __str__(self) -> str:
        return "memory"

    def names(self) -> Iterable[str]:
        """See Store."""
        return list(self)

    def read(self, name: str) -> bytes:
        """See Store."""
        return self[name]

    def write(self, name: str, parts: Iterable[Buffer]) -> None:
        """See Store."""
        self[name] = b"".join(parts)

    def delete(self, name: str) -> None:
        """See Store."""
        self.pop(name, None)


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=parse_size, default="512M", help="size of the model (default: 512M)")
    parser.add_argument("--repeats", type=int, default=9, help="timed versions of each share (default: 9)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call, which other work on the machine hardly changes."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def measure(size: int, share: float, repeats: int) -> Row:
    """The row of one share of changed elements."""
    random = np.random.default_rng(0)
    elements = size // 2 // TENSORS
    trainer = [random.integers(0, 1 << 16, elements, np.uint16) for _ in range(TENSORS)]
    follower = [np.zeros_like(tensor) for tensor in trainer]

    def weights(tensors: list[np.ndarray]) -> list[Weight]:
        return [
            Weight(f"{index}", "bfloat16", tensor.shape, 2, tensor.view(np.uint8))
            for index, tensor in enumerate(tensors)
        ]

    store = Memory()
    publisher, reader = Publisher(store, anchor_every=10**6), Follower(store)
    publisher.publish(weights(trainer))
    reader.follow(weights(follower), 1.0)
    copies = [np.zeros_like(tensor) for tensor in trainer]
    copied, published, followed, sent = [], [], [], 0
    for _ in range(WARM_UPS + repeats):
        for tensor in trainer:
            if share:
                tensor[random.random(elements, np.float32) < share] ^= 1
        copied.append(seconds(lambda: [np.copyto(to, tensor) for to, tensor in zip(copies, trainer, strict=True)]))
        published.append(seconds(lambda: publisher.publish(weights(trainer))))
        followed.append(seconds(lambda: reader.follow(weights(follower), 1.0)))
        sent = len(store[name_of(publisher.version)])
        store.delete(name_of(publisher.version - 1))
    if not all(np.array_equal(one, other) for one, other in zip(trainer, follower, strict=True)):
        raise SystemExit("the follower's model is not the publisher's")
    times = list(zip(copied, published, followed, strict=True))[WARM_UPS:]
    bytes_of_model = TENSORS * elements * 2
    return {
        "changed_percent": 100 * share,
        "sent_percent": 100 * sent / bytes_of_model,
        "publish_gbps": bytes_of_model / statistics.median(taken for _, taken, _ in times) / 1e9,
        "follow_gbps": bytes_of_model / statistics.median(taken for _, _, taken in times) / 1e9,
        "publish_memcpy_ratio": statistics.median(taken / copy for copy, taken, _ in times),
        "follow_memcpy_ratio": statistics.median(taken / copy for copy, _, taken in times),
        "memcpy_ms": 1000 * statistics.median(copy for copy, _, _ in times),
        "size_bytes": bytes_of_model,
        "tensors": TENSORS,
        "repeats": repeats,
    }


def main() -> int:
    """Measures, prints the table and writes the rows."""
    options = arguments().parse_args()
    rows = [measure(options.size, share, options.repeats) for share in SHARES]
    print_table(rows)
    if options.json:
        write_json(options.json, rows)
    return 0
