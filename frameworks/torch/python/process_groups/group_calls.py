# SPDX-License-Identifier: Apache-2.0
"""Collectives of a process group that torch.distributed may know by name or not: a part of another group has none."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from hipress.errors import InvalidArgument
from hipress.torch.installed.private_names import backend_of, gather_into, store_of, timeout_of

Work = Any  # dist.Work, which has no public type
#: A dist.ProcessGroup, or the backend of one: both have the collectives' methods.
Group = Any
#: Makes another group of these ranks of the group, in their order. All of these ranks call it in one order.
NewGroup = Callable[[Sequence[int]], Group]


def all_reduce(group: Group, tensor: torch.Tensor) -> Work:
    """Starts adding in place."""
    return group.allreduce([tensor], dist.AllreduceOptions())


def combine(group: Group, tensor: torch.Tensor, how: str) -> Work:
    """Starts combining in place: the "max", "min" or "sum" of all ranks' elements."""
    options = dist.AllreduceOptions()
    options.reduceOp = getattr(dist.ReduceOp, how.upper())
    return group.allreduce([tensor], options)


def all_to_all(
    group: Group, output: torch.Tensor, given: torch.Tensor, output_sizes: list[int], sizes: list[int]
) -> Work:
    """Starts sending `sizes[r]` elements of `given` to each rank r."""
    return group.alltoall_base(output, given, output_sizes, sizes, dist.AllToAllOptions())


def exchange(
    group: Group, output: torch.Tensor, given: torch.Tensor, output_sizes: list[int], sizes: list[int]
) -> Work:
    """The same between few ranks: a rank with nothing to send or to get takes no part."""
    if given.device.type != "cpu":  # there an all-to-all starts only the transfers that have bytes, all at once
        return all_to_all(group, output, given, output_sizes, sizes)
    works = [group.recv([into], rank, 0) for rank, into in enumerate(output.split(output_sizes)) if into.numel()]
    works += [group.send([part], rank, 0) for rank, part in enumerate(given.split(sizes)) if part.numel()]
    return _Works(works)


class _Works:
    """Several works as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()


def all_gather(group: Group, output: torch.Tensor, given: torch.Tensor) -> Work:
    """Starts collecting all ranks' `given`, one behind the other."""
    return gather_into(group, output, given)


def gather_all(group: Group, tensor: torch.Tensor) -> list[torch.Tensor]:
    """All ranks' tensors, which have one shape."""
    tensors = [torch.empty_like(tensor) for _ in range(group.size())]
    group.allgather([tensors], [tensor]).wait()
    return tensors


#: Backends whose groups known_to_torch() makes without telling torch.
_made_here = {"gloo"}
#: How many groups new_group() has made of a group. All of its ranks make them in one order.
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()


def known_to_torch(group: dist.ProcessGroup, device: torch.device) -> NewGroup:
    """For a group that new_group() or init_process_group() has made; new groups get its timeout. They take tensors of
    the device."""

    def new_group(ranks: Sequence[int]) -> Group:
        try:
            backend = backend_of(group, device)
        except RuntimeError as error:
            known = "CPU tensors, as Gloo has" if device.type == "cpu" else f"tensors of {device}, as NCCL has"
            raise InvalidArgument(f"the process group has no collectives for {known}: {error}") from None
        limit = timeout_of(backend)  # new_group() has its own default
        if backend.name() in _made_here:
            # torch would keep a group that it knows, with its files and threads, until the end of the process. If ranks
            # took it back one after the other, their next groups would get other names.
            _made[group] = _made.get(group, 0) + 1
            store = store_of(group)
            own = PrefixStore(f"hipress/{_made[group]}/{','.join(map(str, ranks))}/", store)
            return dist.ProcessGroupGloo(own, list(ranks).index(group.rank()), len(ranks), limit)
        if unused := _unused.get(group, {}).get(tuple(ranks)):
            return unused.pop()
        all_ranks = dist.get_process_group_ranks(group)
        made = dist.new_group(
            [all_ranks[rank] for rank in ranks], timeout=limit, backend=backend.name(), use_local_synchronization=True
        )
        assert isinstance(made, dist.ProcessGroup)
        return made

    return new_group


#: Groups that torch keeps until the end, such as NCCL's, and that nothing uses now, by their ranks in a group.
_unused: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[tuple[int, ...], list[Group]]] = weakref.WeakKeyDictionary()


def give_back(group: Group, ranks: Sequence[int], made: Group) -> None:
    """Nothing uses a group of known_to_torch(group) any more. Its ranks all give it back between the same two calls."""
    if isinstance(made, dist.ProcessGroup):  # Gloo's go with their last user
        _unused.setdefault(group, {}).setdefault(tuple(ranks), []).append(made)
