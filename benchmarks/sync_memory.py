# SPDX-License-Identifier: Apache-2.0
"""About how much memory a run of sync.py needs: its nodes share one machine's, and whoever lacks some is killed."""

from __future__ import annotations

from pathlib import Path

from sync_job import Job
from sync_trials import MOST

from hipress._library import load_core

#: Of one process, before it has any gradients: what Python and torch do not share with the other ranks.
_PROCESS = 300_000_000
#: Of each rank's values every rank keeps a pool (sync_values.py).
_POOL = 4 * 4_194_301
#: DDP's larger buckets; a gradient that is larger has one for itself.
_BUCKET = 25 << 20


def memory_needed(job: Job, world: int) -> int:
    """Bytes of all ranks at the worst moment. Horovod, in a job of its own, needs less. Of ResNet-50 and BERT-base with
    all of PyTorch's peers, four ranks were measured: within 3 %."""
    gradients = job.gradients
    size = gradients.size
    largest = max(_BUCKET, *(4 * one.count for one in gradients.gradients))
    # Trials come one after the other: of those that are tried, those that are kept count.
    codecs = [codec for codec, _ in job.ours] + [
        codec for codec in {codec for codec, _ in job.tried} for _ in range(MOST)
    ]
    rank = _PROCESS + world * _POOL + size
    for codec in codecs:
        states = len(load_core().create_codec(codec).states)
        # As worker, and as aggregator of a share.
        rank += states * (size + size // world)
    if "none" in codecs:
        # What came from the others and is not added up yet; given back when it was not needed for some steps.
        rank += size * (world - 1) // world
    if job.peers and job.peers != ["horovod"]:
        rank += size  # buckets
    if "gloo-fp16" in job.peers:
        rank += size // 2  # all buckets are under way at once
    if "powersgd" in job.peers:
        rank += size + 3 * largest  # its residuals; a bucket before, approximated, and what is left of it
    return world * rank


def memory_available() -> int:
    """Bytes that processes can have without others being swapped out or killed."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    raise RuntimeError("/proc/meminfo has no MemAvailable; this needs Linux 3.14 or newer")


def memory_warning(job: Job, world: int) -> str:
    """What to say before a run that may not fit; empty: it fits."""
    needed, available = memory_needed(job, world), memory_available()
    if needed <= available:
        return ""
    return (
        f"this run needs about {needed / 1e9:.0f} GB and {available / 1e9:.0f} GB are free: the system may kill ranks; "
        "leave out a peer (powersgd needs most), a codec or nodes"
    )
