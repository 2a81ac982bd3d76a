# SPDX-License-Identifier: Apache-2.0
"""join(): ranks with fewer batches than others wait without holding them up."""

from __future__ import annotations

from hipress.adapter.lists import joining


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
    return joining.join()
