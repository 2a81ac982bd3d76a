# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes in every parameter (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import Mismatch


def check_replicas(
    named_values: Iterable[tuple[str, NDArray[Any]]], step: int, process_set: ProcessSet = global_process_set
) -> None:
    """Compares the hash of each parameter among the ranks of the set. Each of them calls it after the same step.

    Raises Mismatch, on each of them, with the first parameter that differs and the ranks that differ from the first.
    """
    names = []
    digests = b""
    for name, values in named_values:
        names.append(name)
        digests += hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
    ranks = process_set.ranks
    gathered = runtime.current().engine.allgather(process_set.named("replicas"), digests, among=process_set.among)
    for index, name in enumerate(names):
        part = slice(16 * index, 16 * (index + 1))
        different = [str(rank) for rank, own in zip(ranks, gathered, strict=True) if own[part] != gathered[0][part]]
        if different:
            raise Mismatch(
                f"after step {step} parameter '{name}' is not the same on all ranks: rank {', '.join(different)} and "
                f"rank {ranks[0]} differ. "
                "Broadcast the parameters before training, and change them only through the optimizer"
            )
