# SPDX-License-Identifier: Apache-2.0
"""A HiPress session inside a rank: it frees all memory and connections at its end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import torch.distributed as dist


@contextlib.contextmanager
def hipress_session(timeout: float, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """A session that all ranks begin and end together; torch.distributed must run. `settings`: HIPRESS_* variables of
    the session, equal on all ranks."""
    # Imported here, because the environments of peers have no HiPress.
    import hipress.torch as hp

    before = dict(os.environ)
    os.environ.update(settings or {})
    try:
        hp.init(timeout=timeout)
        yield
        hp.shutdown()
        # Rank 0 would refuse a rank that starts the next session before rank 0 has closed this one.
        dist.barrier()
    finally:
        os.environ.clear()
        os.environ.update(before)
