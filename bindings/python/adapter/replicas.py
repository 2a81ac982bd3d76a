# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes in every parameter (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress.errors import Mismatch


def check_replicas(named_values: Iterable[tuple[str, NDArray[Any]]], step: int) -> None:
    """Compares the hash of each parameter among all ranks. Every rank calls it after the same step.

    Raises Mismatch, on every rank, with the first parameter that differs and the ranks that differ from rank 0.
    """
    names = []
    digests = b""
    for name, values in named_values:
        names.append(name)
        digests += hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).digest()
    gathered = runtime.current().engine.allgather("replicas", digests)
    for index, name in enumerate(names):
        part = slice(16 * index, 16 * (index + 1))
        different = [rank for rank, digest in enumerate(gathered) if digest[part] != gathered[0][part]]
        if different:
            ranks = ", ".join(map(str, different))
            raise Mismatch(
                f"after step {step} parameter '{name}' is not the same on all ranks: rank {ranks} and rank 0 differ. "
                "Broadcast the parameters before training, and change them only through the optimizer"
            )
