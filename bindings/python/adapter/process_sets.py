# SPDX-License-Identifier: Apache-2.0
"""Horovod's argument `process_set=`. The only set has all ranks; other sets raise Unsupported."""

from __future__ import annotations

from typing import Any

from hipress import runtime
from hipress.errors import Unsupported


class ProcessSet:
    """The set of ranks that take part in an operation."""

    def __init__(self, ranks_or_comm: Any) -> None:
        if not isinstance(ranks_or_comm, list) or ranks_or_comm:
            raise Unsupported(f"ProcessSet({ranks_or_comm!r}): operations are among all ranks, global_process_set")
        self.process_set_id = 0

    @property
    def ranks(self) -> list[int]:
        return list(range(runtime.size()))

    def size(self) -> int:
        return runtime.size()

    def rank(self) -> int:
        return runtime.rank()

    def included(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "the set of all ranks"


global_process_set = ProcessSet([])
"""All ranks."""


def add_process_set(process_set: Any) -> ProcessSet:
    """Raises Unsupported."""
    raise Unsupported(f"add_process_set({process_set!r}): operations are among all ranks")


def remove_process_set(process_set: Any) -> bool:
    """Raises Unsupported."""
    raise Unsupported(f"remove_process_set({process_set!r}): operations are among all ranks")


def check(process_set: Any) -> None:
    """Raises Unsupported unless it is `global_process_set`."""
    if process_set is not global_process_set:
        raise Unsupported(f"process_set={process_set!r}: operations are among all ranks, global_process_set")
