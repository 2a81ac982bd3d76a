# SPDX-License-Identifier: Apache-2.0
"""Sends versions of a model's weights from a trainer to any number of followers, through a folder or object store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.reals import resolved

if TYPE_CHECKING:  # a third of the time of `import hipress.torch`, which few programs need
    from hipress.weights import Store, Weight


class WeightStream:
    """A trainer publishes versions of its weights; evaluators, rollout workers and other machines follow them.

        stream = hipress.torch.WeightStream("/shared/weights")     # in the trainer, on one rank
        stream.publish(model.state_dict())

        stream = hipress.torch.WeightStream("/shared/weights")     # in each follower
        stream.follow(model.state_dict(), timeout=600)

    Followers get the trainer's bytes exactly. A version has only the indices and new values of the elements whose bytes
    changed since the last version (as PULSE, arXiv 2602.03839); few bfloat16 weights change in a training step. One of
    `anchor_every` versions has all values, so a follower may begin late or miss versions. A stream needs no engine and
    no other rank.

    Arguments:
        store: a folder, or an object with the methods of `hipress.weights.Store`, for an object store.
        anchor_every: one of this many versions has all values.
        keep_anchors: number of versions with all values to keep; older versions are deleted.

    Raises InvalidArgument.
    """

    def __init__(self, store: str | os.PathLike[str] | Store, *, anchor_every: int = 50, keep_anchors: int = 2) -> None:
        from hipress.weights import FolderStore, Follower, Publisher

        place = FolderStore(store) if isinstance(store, str | os.PathLike) else store
        self._publisher = Publisher(place, anchor_every=anchor_every, keep_anchors=keep_anchors)
        self._follower = Follower(place)

    @property
    def version(self) -> int:
        """The last version that this object published or applied; 0: none."""
        return self._follower.version or self._publisher.version

    def publish(self, weights: Mapping[str, torch.Tensor]) -> int:
        """Writes the next version, and returns its number: 1 for the first.

        Arguments:
            weights: dense tensors by name, on any device, such as `model.state_dict()`. They keep their names, types
                and shapes from version to version. The call copies them: training may go on when it returns.

        Raises InvalidArgument, also if another process publishes to the same store; Mismatch if the names, types or
        shapes differ from the last version; Unsupported for sparse and quantised tensors; OSError of the store. After
        an error the next version has all values.
        """
        return self._publisher.publish([_weight(name, _on_host(name, tensor)) for name, tensor in weights.items()])

    def follow(self, weights: Mapping[str, torch.Tensor], timeout: float = 600.0, *, from_anchor: bool = False) -> int:
        """Brings the weights to the newest version, in place, and returns its number.

        Arguments:
            weights: the tensors of the same model, such as `model.state_dict()`.
            timeout: seconds to wait for a version newer than the last one.
            from_anchor: read all values again; needed if other code wrote to the weights after the last call.

        Raises Timeout; Mismatch with the first difference if the stream is of another model; CorruptPayload, with the
        file's name, for a truncated or altered file; InvalidArgument if the weights are not those of the last call;
        Unsupported. The weights are unchanged then.
        """
        hosts = {name: _on_host(name, tensor) for name, tensor in weights.items()}
        version = self._follower.follow(
            [_weight(name, host) for name, host in hosts.items()], timeout, from_anchor=from_anchor
        )
        for name, host in hosts.items():
            if host.data_ptr() != weights[name].data_ptr():
                weights[name].detach().copy_(host)
        return version


def _on_host(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it is contiguous in host memory, else a copy."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgument(f"'{name}' is a {type(tensor).__name__}: a stream has tensors only")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise Unsupported(f"the weight '{name}' ({tensor.dtype}) is sparse or quantised: give it as dense tensors")
    return resolved(tensor.detach()).cpu().contiguous()


def _weight(name: str, host: torch.Tensor) -> Weight:
    from hipress.weights import Weight

    dtype = str(host.dtype).removeprefix("torch.")
    return Weight(name, dtype, tuple(host.shape), host.element_size(), host.flatten().view(torch.uint8).numpy())
