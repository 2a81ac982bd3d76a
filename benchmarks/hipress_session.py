# SPDX-License-Identifier: Apache-2.0
"""HiPress for a while in a rank that goes on without it: what one session holds, the next one does not find."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import torch.distributed as dist


@contextlib.contextmanager
def hipress_session(timeout: float, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """All ranks begin and end it together, and torch.distributed is there. `settings`: HIPRESS_* variables that hold
    for this session, on all ranks alike."""
    # Here: peers that run in an environment of their own have no HiPress there.
    import hipress.torch as hp

    before = dict(os.environ)
    os.environ.update(settings or {})
    try:
        hp.init(timeout=timeout)
        yield
        hp.shutdown()
        # Whoever came back before rank 0 has closed this session would be refused, as one who has left it.
        dist.barrier()
    finally:
        os.environ.clear()
        os.environ.update(before)
