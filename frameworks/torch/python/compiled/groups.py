# SPDX-License-Identifier: Apache-2.0
"""The process groups whose collectives in graphs are compressed. A graph knows a group by its name."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from hipress.errors import InvalidArgument
from hipress.torch.compiled.compressed_group import CompressedGroup
from hipress.torch.installed.private_names import backend_of, group_of_name, store_of, timeout_of
from hipress.torch.process_groups.backend import BackendOptions
from hipress.torch.process_groups.compressing_group import CompressingGroup
from hipress.torch.process_groups.options import chosen_codec

#: By the group that the program has. They go with it.
_compressed: weakref.WeakKeyDictionary[dist.ProcessGroup, CompressedGroup] = weakref.WeakKeyDictionary()
#: How many each group has had: all ranks count alike, and their stores' keys differ.
_made: weakref.WeakKeyDictionary[dist.ProcessGroup, int] = weakref.WeakKeyDictionary()


def compress_group(group: dist.ProcessGroup | None = None, codec: str | None = None, **options: Any) -> CompressedGroup:
    """Lets graphs compress what they send over `group`; returns the state, which belongs into checkpoints.

    All ranks of the group call it with the same arguments, before a graph with compressed collectives runs. A group of
    the backend "hipress" has its codec already: it takes none here.

    Arguments:
        group: None: the default group.
        codec: of gradients, such as "int8" or "onebit". Reduce-scatters and all-gathers take codecs without error
            feedback.
        options: topology, ranks_per_host, min_compress_bytes, compress_vectors, warmup, seed and scaler, as of
            `hipress.torch.process_groups.BackendOptions`; the topology is "auto" by default, as of
            `hipress.torch.ddp.compress()`.

    Raises InvalidArgument, also for a group that is compressed already; Unsupported; Mismatch, on all ranks, if their
    arguments differ.
    """
    chosen = dist.group.WORLD if group is None else group
    if chosen is None:
        raise InvalidArgument("there is no process group: call torch.distributed.init_process_group() first")
    before = _compressed.get(chosen)
    if isinstance(chosen, CompressingGroup):
        if codec is not None or options:
            raise InvalidArgument(
                f"the group was made with backend 'hipress' and codec '{chosen.options.codec}': call compress_group() "
                "without a codec, or make the group with another one"
            )
        return _of_backend(chosen)
    if before is not None and not before.closed:
        raise InvalidArgument(
            f"the group has codec '{before.options.codec}' already: close() that state on all ranks before another one"
        )
    text = chosen_codec(codec, "compress_group(group, codec)")
    how = BackendOptions(text, **{"topology": "auto", **options}).group_options
    _made[chosen] = _made.get(chosen, 0) + 1
    store = PrefixStore(f"hipress compiled {_made[chosen]}/", store_of(chosen))
    limit = timeout_of(_backend_of(chosen))
    averages = CompressingGroup(store, chosen.rank(), chosen.size(), limit, how)
    made = CompressedGroup(averages, how, owned=True)
    _compressed[chosen] = made
    return made


def compressed_group(name: str) -> CompressedGroup | None:
    """The compressed collectives of the group with this group_name; None: it has no codec. Raises InvalidArgument if
    there is no group."""
    try:
        group = group_of_name(name)
    except (RuntimeError, ValueError, KeyError) as error:
        raise InvalidArgument(
            f"there is no process group '{name}' in this process: {error}. A graph has names of groups, so make the "
            "groups in the order of the program that traced it"
        ) from None
    if isinstance(group, CompressingGroup):
        return _of_backend(group)
    found = _compressed.get(group)
    return None if found is None or found.closed else found


def running_group(name: str) -> CompressedGroup:
    """The same for an operator that runs. Raises InvalidArgument if the group has no codec."""
    found = compressed_group(name)
    if found is None:
        raise InvalidArgument(
            f"process group '{name}' has no codec: call hipress.torch.compiled.compress_group(group, codec=...) on all "
            "of its ranks before the graph runs, or make it with backend 'hipress'"
        )
    return found


def _of_backend(group: CompressingGroup) -> CompressedGroup:
    found = _compressed.get(group)
    if found is None or found.closed:
        found = _compressed[group] = CompressedGroup(group, group.options, owned=False)
    return found


def _backend_of(group: dist.ProcessGroup) -> Any:
    for device in ("cpu", "cuda"):
        try:
            return backend_of(group, torch.device(device))
        except RuntimeError:
            continue
    raise InvalidArgument("the process group has no collectives for CPU tensors or GPU tensors, as Gloo and NCCL have")
