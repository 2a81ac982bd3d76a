# SPDX-License-Identifier: Apache-2.0
"""Estimates the memory of a run of sync.py. The nodes share one machine, and without memory the kernel kills ranks."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.topologies import MOST
from benchmarks.sync.job import Job
from hipress._library import load_core

#: Bytes of a process without gradients that it does not share with other ranks.
_PROCESS = 300_000_000
#: Bytes of a pool of values; every rank keeps one pool for each rank (harness/values.py).
_POOL = 4 * 4_194_301
#: Bytes of DDP's larger buckets; a larger gradient gets its own bucket.
_BUCKET = 25 << 20


def memory_needed(job: Job, world: int) -> int:
    """Bytes of all ranks at the peak. Horovod's separate job needs less. For ResNet-50 and BERT-base with all of
    PyTorch's peers, the estimate was within 3 % of the measured memory of four ranks."""
    gradients = job.gradients
    size = gradients.size
    largest = max(_BUCKET, *(4 * one.count for one in gradients.gradients))
    # Trials free their memory, so only the measured topologies count.
    codecs = [codec for codec, _ in job.ours] + [
        codec for codec in {codec for codec, _ in job.tried} for _ in range(MOST)
    ]
    rank = _PROCESS + world * _POOL + size
    for codec in codecs:
        states = len(load_core().create_codec(codec).states)
        # States of the worker, and of the aggregator for a share.
        rank += states * (size + size // world)
    if "none" in codecs:
        # Staging of received values; the pool frees it after some steps without use.
        rank += size * (world - 1) // world
    if job.peers and job.peers != ["horovod"]:
        rank += size  # buckets
    if "gloo-fp16" in job.peers:
        rank += size // 2  # all buckets are in flight at once
    if "powersgd" in job.peers:
        rank += size + 3 * largest  # residuals, and a bucket with its approximation and its error
    return world * rank


def memory_available() -> int:
    """Bytes of available memory."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable; this needs Linux 3.14 or newer")


def memory_warning(job: Job, world: int) -> str:
    """The warning before a run that may not fit; empty if it fits."""
    needed, available = memory_needed(job, world), memory_available()
    if needed <= available:
        return ""
    return (
        f"this run needs about {needed / 1e9:.0f} GB and {available / 1e9:.0f} GB are free: the system may kill ranks; "
        "leave out a peer (powersgd needs most), a codec or nodes"
    )
