# SPDX-License-Identifier: Apache-2.0
"""Collects SparseLoCo's messages over a process group: first their sizes, then the bytes that are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist

from hipress.errors import CorruptPayload
from hipress.torch.diloco.group_failure import failing
from hipress.torch.diloco.left_ranks import LeftRanks
from hipress.torch.process_groups import group_calls
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.stage import Stage

_SIZE_BYTES = 8


@dataclass(frozen=True)
class _Given:
    """A rank's message about a fragment: a buffer of uint8, of which zeros at the end do not travel."""

    fragment: int
    message: torch.Tensor
    gathered: Future[list[torch.Tensor]] = field(default_factory=Future)


class GroupGather:
    """Begins to collect all ranks' messages about a fragment, again and again; see Gather of ranks.py.

    A rank cannot receive before it knows the sizes, so a thread waits for them, and training goes on. The thread has a
    process group of its own: its collectives start in the same order on all ranks, whatever else the program does with
    the group. The ranks of `group` make the object at the same time. Waits end with the group's timeout.

    Arguments:
        sizes: of the buffers by fragment, in bytes, the same on all ranks.

    A call returns what waits for the buffers of all ranks, in their order. That raises TransportError; PeerLost if a
    rank has left; CorruptPayload if a rank announces a size that no message of this fragment has.
    """

    def __init__(self, group: dist.ProcessGroup, sizes: Sequence[int], left_ranks: LeftRanks) -> None:
        rank, world = group.rank(), group.size()
        with failing(rank, world, "while it made a group for DiLoCo's messages"):
            own = group_calls.known_to_torch(group, torch.device("cpu"))(range(world))
        self._sent = [0]
        self._left_ranks = left_ranks
        # The thread must not hold this object: it ends when the object is forgotten.
        self._stage = Stage("hipress-gather", functools.partial(_gather, own, list(sizes), self._sent))

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has given to collectives for other ranks."""
        return self._sent[0]

    def __call__(self, fragment: int, message: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        """`message`: uint8 of the fragment's size, which nothing else touches."""
        given = _Given(fragment, message)
        self._stage.put(given)
        return functools.partial(self._left_ranks.wait, given.gathered)


def _gather(group: Group, sizes: Sequence[int], sent: list[int], given: _Given) -> None:
    try:
        with failing(group.rank(), group.size(), f"while it gathered fragment {given.fragment}"):
            gathered = _gathered(group, sizes[given.fragment], sent, given)
    except Exception as error:
        given.gathered.set_exception(error)
    else:
        given.gathered.set_result(gathered)


def _gathered(group: Group, size: int, sent: list[int], given: _Given) -> list[torch.Tensor]:
    rank, world = group.rank(), group.size()
    used = _used(given.message)
    sizes = torch.empty(world, dtype=torch.int64)
    group_calls.all_gather(group, sizes, torch.tensor([used])).wait()
    for other, announced in enumerate(sizes.tolist()):
        if not 0 <= announced <= size:
            raise CorruptPayload(
                f"rank {other} of {world} announces a message of {announced} bytes about fragment {given.fragment}, "
                f"which has at most {size}; nothing was applied"
            )
    inward = [0 if other == rank else announced for other, announced in enumerate(sizes.tolist())]
    outward = [0 if other == rank else used for other in range(world)]
    received = torch.empty(sum(inward), dtype=torch.uint8)
    copies = given.message[:used].repeat(world - 1)
    group_calls.all_to_all(group, received, copies, inward, outward).wait()
    sent[0] += sum(outward) + (world - 1) * _SIZE_BYTES
    buffers = torch.zeros(world, size, dtype=torch.uint8)
    for buffer, part in zip(buffers, received.split(inward), strict=True):
        buffer[: part.numel()] = part
    buffers[rank] = given.message
    return list(buffers)


def _used(message: torch.Tensor) -> int:
    """Number of bytes up to the last one that is not zero."""
    nonzero = message.numpy()[::-1] != 0
    return message.numel() - int(np.argmax(nonzero)) if nonzero.any() else 0
