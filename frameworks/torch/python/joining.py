# SPDX-License-Identifier: Apache-2.0
"""join(): ranks with fewer batches than others wait without holding them up."""

from __future__ import annotations

import json

from hipress import runtime
from hipress.adapter.process_sets import global_process_set
from hipress.torch.synchronizer import GradientSynchronizer


def join(device: int = -1) -> int:
    """Says that this rank has no more batches, waits until all ranks have said it, and returns the rank that said it
    last. All ranks call it, as with Horovod.

    The other ranks go on meanwhile: this rank counts as zeros in their all-reduces, and averages are still over all
    ranks. What codecs keep on this rank for later steps stays as it is. `allgather()`, `broadcast()` and other
    collectives of the others raise Unsupported until all ranks have joined, and so do checks of replicas, automatic
    plans and codec="auto", which compare all ranks. Afterwards the parameters of this rank are older than the others':
    give it those of the returned rank, with `broadcast_parameters()`.

    `device` is Horovod's and changes nothing. Raises Unsupported for gradients on GPUs, PeerLost.
    """
    process = runtime.current()
    last = process.engine.join()
    # The ranks have taken different numbers of steps and of calls. From here on they count alike again.
    lists = [user for user in global_process_set.users if isinstance(user, GradientSynchronizer) and len(user) > 0]
    own = process.call_counts(), {each.name(0): each.steps for each in lists}
    gathered = [json.loads(text) for text in process.engine.allgather("joined", json.dumps(own).encode())]
    process.continue_counts(_most([calls for calls, _ in gathered]))
    steps = _most([steps for _, steps in gathered])
    for each in lists:
        each.steps = steps[each.name(0)]
    return last


def _most(of_ranks: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(each.get(name, 0) for each in of_ranks) for own in of_ranks for name in own}
