# SPDX-License-Identifier: Apache-2.0
"""The communication hook that DistributedDataParallel calls for each bucket of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hipress.errors import InvalidArgument
from hipress.options.signatures import takes
from hipress.torch.ddp.models import replicated
from hipress.torch.ddp.options import WORDS, HookBesideCodec, HookOptions
from hipress.torch.ddp.state import HookState
from hipress.torch.installed.private_names import GradBucket

if TYPE_CHECKING:
    from typing_extensions import Unpack


def hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the bucket's gradients over all ranks. For `DistributedDataParallel.register_comm_hook`.

    Raises the error of an earlier bucket, if one has failed. torch hides the type of an error that a bucket's future
    gets: backward raises a RuntimeError. The logger "hipress" writes the error at once.
    """
    return state.average(bucket)


# torch compares the annotations with types; under `from __future__ import annotations` they are strings.
hook.__annotations__ = {"bucket": GradBucket, "return": torch.futures.Future[torch.Tensor]}


@takes(HookOptions, **WORDS)
def compress(model: torch.nn.Module, codec: str | None = None, **options: Unpack[HookBesideCodec]) -> HookState:
    """Makes `model` average its gradients compressed; returns the hook's state, which belongs into checkpoints.

    All ranks call it after they have wrapped the model and before the first backward pass, with the same arguments.

    Arguments:
        model: what DistributedDataParallel() returned, also within wrappers of torch.compile() or Lightning Fabric, or
            a module after torch's composable `replicate()`. Parameters keep the names of the wrapped module. If this
            process is the only rank, a module that nothing wraps is right, too: nothing is compressed then.
        {codec, carrier, topology, min_compress_bytes, compress_vectors, codec_for, ranks_per_host, host_group}
        {warmup, plan, seed, scaler}

    Raises InvalidArgument, also without codec, codec_for and plan, and for a plan of other tensors or another number of
    ranks; Unsupported; Mismatch, on all ranks, if the ranks' parameters or arguments differ.
    """
    state = HookState(model, codec, **options)
    ddp = replicated(model).ddp
    if ddp is None:
        return state
    try:
        ddp.register_comm_hook(state, hook)
    except RuntimeError as error:
        if "register_comm_hook" not in str(error):
            raise
        raise InvalidArgument(
            "the model has a communication hook already, and torch takes one per model: wrap the module in a new "
            "DistributedDataParallel, or remove the other call of register_comm_hook()"
        ) from error
    return state
