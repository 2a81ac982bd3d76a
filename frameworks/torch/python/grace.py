# SPDX-License-Identifier: Apache-2.0
"""GRACE's interface: `grace_from_params({...})` takes GRACE's names and returns an object whose `step()` averages a
tensor.

    from hipress.torch.grace import grace_from_params

    grace = grace_from_params({"compressor": "topk", "compress_ratio": 0.01, "memory": "residual"})
    gradient = grace.step(gradient, "layer1.weight")

GRACE (Xu et al., 2021) composes a compressor, a memory and a communicator. Here a codec is compressor and memory, and a
topology is the communicator. The guide's page on GRACE has the table of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.operations import Operation
from hipress.adapter.reduce_ops import Average
from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.collectives import allreduce_async

#: The topology of each of GRACE's communicators. A broadcast from every rank sends the same bytes as an allgather.
TOPOLOGIES = {"allreduce": "ps", "allgather": "allgather", "broadcast": "allgather"}
#: The codec of each of GRACE's compressors that has one; `{name}` stands for a parameter of GRACE.
COMPRESSORS = {
    "none": "none",
    "fp16": "fp16",
    "dgc": "dgc(ratio={compress_ratio}, momentum={momentum})",
    "efsignsgd": "efsignsgd",
    "natural": "natural",
    "onebit": "onebit",
    "powersgd": "powersgd(rank={compress_rank}, min_ratio=1)",
    "qsgd": "qsgd(levels={quantum_num}, block={bucket_size})",
    "randomk": "randomk(ratio={compress_ratio})",
    "terngrad": "terngrad",
    "threshold": "threshold(threshold={threshold})",
    "topk": "topk(ratio={compress_ratio})",
    "u8bit": "u8bit",
}
MEMORIES = ("none", "residual", "efsignsgd", "dgc", "powersgd")
#: GRACE's compressors and memories without a codec, and the codec that the error text recommends.
WITHOUT_CODEC = {
    "signsgd": "efsignsgd, which sends the signs and a magnitude",
    "signum": "efsignsgd, or onebit",
    "adaq": "threshold",
    "adapsparse": "threshold",
    "inceptionn": "natural",
    "sketch": "qsgd",
}
#: GRACE's parameters and their defaults.
DEFAULTS: dict[str, Any] = {
    "compressor": "none",
    "memory": "none",
    "communicator": "allreduce",
    "world_size": None,
    "compress_ratio": 0.3,
    "compress_rank": 1,
    "momentum": 0.9,
    "gradient_clipping": False,
    "quantum_num": 127,
    "bucket_size": 128,
    "threshold": 0.01,
    "lr": 0.1,
}
#: Compressors whose codecs can keep a residual; the other codecs of COMPRESSORS have none.
_WITH_RESIDUAL = ("efsignsgd", "natural", "onebit", "powersgd", "qsgd", "randomk", "threshold", "topk", "u8bit")


@dataclass(frozen=True)
class Grace:
    """The object that `grace_from_params()` returns. `hipress.torch.DistributedOptimizer` takes the same `codec` and
    `topology`, and overlaps synchronisation with backward."""

    codec: str
    topology: str

    def step(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """The average of `tensor` over all ranks, as a new tensor. `name` identifies the codec's states.

        Raises the errors of `hipress.torch.allreduce`: Unsupported, Mismatch, DuplicateName, PeerLost, Timeout and
        NotInitialized.
        """
        return self.receive_step(self.send_step(tensor, name))

    def send_step(self, tensor: torch.Tensor, name: str) -> Operation[torch.Tensor]:
        """Starts `step()`. The tensor must not be changed until `receive_step()`."""
        return allreduce_async(
            tensor.detach(), name=f"grace.{name}", op=Average, codec=self.codec, topology=self.topology
        )

    def receive_step(self, started: Operation[torch.Tensor]) -> torch.Tensor:
        """Waits for the operation that `send_step()` has started, and returns the average."""
        return started.wait()


def grace_from_params(params: Mapping[str, Any]) -> Grace:
    """The codec and topology that GRACE's `params` name.

    Raises Unsupported for a name of GRACE that has no codec, and for a memory that the compressor cannot have; the text
    lists the valid names. Raises InvalidArgument for an unknown name or parameter, and for a value out of range.
    """
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise InvalidArgument(f"grace_from_params: unknown parameter '{unknown[0]}'; there are {', '.join(DEFAULTS)}")
    given = {**DEFAULTS, **params}
    compressor, memory, communicator = given["compressor"], given["memory"], given["communicator"]
    if compressor not in COMPRESSORS:
        _refuse("compressor", compressor, tuple(COMPRESSORS))
    if memory not in MEMORIES:
        _refuse("memory", memory, MEMORIES)
    if communicator not in TOPOLOGIES:
        _refuse("communicator", communicator, tuple(TOPOLOGIES))
    _check_values(given)
    codec = _codec(compressor, memory, given)
    load_core().create_codec(codec)  # raises InvalidArgument for an option out of range
    return Grace(codec, TOPOLOGIES[communicator])


def _codec(compressor: str, memory: str, given: Mapping[str, Any]) -> str:
    """The codec's text. GRACE's memory becomes the codec's error feedback; a momentum memory becomes the codec dgc."""
    if memory == "powersgd" and compressor != "powersgd":
        raise _no_memory(compressor, memory, "powersgd")
    if memory == "dgc" or compressor == "dgc":
        if compressor not in ("dgc", "topk"):
            raise _no_memory(compressor, memory, "dgc and topk")
        if memory == "efsignsgd":
            raise _no_memory(compressor, memory, "efsignsgd")
        if memory == "residual":
            return f"graddrop(ratio={given['compress_ratio']})"
        exact = ", sample_rate=1" if compressor == "topk" else ""
        kept = ", error_feedback=false" if memory == "none" else ""
        return COMPRESSORS["dgc"].format(**given).replace(")", f"{exact}{kept})")
    if memory != "none" and compressor not in (*_WITH_RESIDUAL, "none"):
        raise _no_memory(compressor, memory, ", ".join(_WITH_RESIDUAL))
    text = COMPRESSORS[compressor].format(**given)
    if compressor not in _WITH_RESIDUAL:
        return text
    option = f"error_feedback={'false' if memory == 'none' else 'true'}"
    if compressor == "powersgd" and memory == "none":
        option += ", warm_start=false"
    return text.replace(")", f", {option})") if ")" in text else f"{text}({option})"


def _no_memory(compressor: str, memory: str, others: str) -> Unsupported:
    return Unsupported(
        f"grace_from_params: compressor '{compressor}' has no memory '{memory}'; "
        f"take memory 'none', or compressor {others}"
    )


def _check_values(given: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for a value that has another meaning in GRACE; codecs check their own options."""
    if given["gradient_clipping"]:
        raise InvalidArgument(
            "grace_from_params: gradient_clipping is not part of a memory; clip before step(), "
            "with torch.nn.utils.clip_grad_norm_"
        )
    sparse = given["compressor"] in ("dgc", "topk", "randomk")
    if sparse and not 0 < given["compress_ratio"] < 0.5:
        raise InvalidArgument(
            f"grace_from_params: compress_ratio {given['compress_ratio']}; values with their indices are fewer bytes "
            "than all values for a ratio above 0 and below 0.5"
        )
    size = given["world_size"]
    if size is not None and runtime.is_initialized() and size != runtime.size():
        raise InvalidArgument(f"grace_from_params: world_size {size}, but there are {runtime.size()} ranks")


def _refuse(kind: str, name: object, known: tuple[str, ...]) -> NoReturn:
    there = f"there are {', '.join(known)}"
    if name in WITHOUT_CODEC:
        raise Unsupported(f"grace_from_params: {kind} '{name}' has no codec; take {WITHOUT_CODEC[str(name)]} ({there})")
    raise InvalidArgument(f"grace_from_params: there is no {kind} '{name}'; {there}")


__all__ = ["Grace", "grace_from_params"]
