# SPDX-License-Identifier: Apache-2.0
"""The backend "hipress" of torch.distributed: where a program names a backend, it gets a CompressingGroup.

    options = BackendOptions(codec="onebit")
    init_device_mesh("cpu", (2, 2), mesh_dim_names=("rep", "shard"), backend_override={"rep": ("hipress", options)})

or, where only the name can be given, `configure(codec="onebit")` before, or the environment variable
HIPRESS_BACKEND_CODEC. The group compresses the gradients that were handed to it: by
`hipress.torch.fsdp.compress_hybrid(model)`, or within `gradients(name)`.

From 2.14 on torch itself finds the backend when a program names it: the package has an entry point in the group
"torch.distributed.backends" (pyproject.toml). Before, `import hipress.torch` registers the name.
"""

from __future__ import annotations

import os
from typing import Any

import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.options.warmup import Warmup, warmup_of
from hipress.torch.installed.private_names import Backend
from hipress.torch.process_groups.compressing_group import CompressingGroup
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.scaling.loss_scale import LossScale

NAME = "hipress"
#: The codec of groups that are made by the name alone, in a program that does not import HiPress.
CODEC_VARIABLE = "HIPRESS_BACKEND_CODEC"


class BackendOptions(Backend.Options):
    """How the gradients of a group are compressed: as GroupOptions says it. The same on all ranks."""

    def __init__(
        self,
        codec: str,
        *,
        topology: str = "ps",
        ranks_per_host: int = 0,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        compress_vectors: bool = False,
        warmup: int | Warmup | None = None,
        seed: int = 0,
        scaler: Any = None,
    ) -> None:
        super().__init__(NAME)
        self.group_options = GroupOptions(
            codec=codec,
            topology=topology,
            ranks_per_host=ranks_per_host,
            min_compress_bytes=min_compress_bytes,
            compress_vectors=compress_vectors,
            warmup=warmup_of(warmup),
            seed=seed,
            scaler=LossScale(scaler, "BackendOptions(codec=..., scaler=scaler)"),
        )


_configured: BackendOptions | None = None


def configure(codec: str, **options: Any) -> None:
    """The options of groups that are made from now on by the name "hipress" alone. Arguments: BackendOptions'."""
    global _configured
    _configured = BackendOptions(codec, **options)


def _of_the_name() -> BackendOptions:
    """The options where the program gives none."""
    if _configured is not None:
        return _configured
    codec = os.environ.get(CODEC_VARIABLE)
    if not codec:
        raise InvalidArgument(
            "a process group with backend 'hipress' needs a codec: give BackendOptions(codec=…) with the name, call "
            f"hipress.torch.process_groups.configure(codec=…) before, or set the environment variable {CODEC_VARIABLE}"
        )
    return BackendOptions(codec)


def _create(given: Any, options: Any) -> CompressingGroup:
    chosen = _of_the_name() if options is None else options
    if not isinstance(chosen, BackendOptions):
        raise InvalidArgument(
            f"backend 'hipress' takes hipress.torch.process_groups.BackendOptions, not {type(chosen).__name__}"
        )
    return CompressingGroup(given.store, given.group_rank, given.group_size, given.timeout, chosen.group_options)


def register() -> None:
    """Tells torch.distributed the backend's name, once. torch calls it, too, by the entry point."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])
