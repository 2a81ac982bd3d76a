# SPDX-License-Identifier: Apache-2.0
"""Codecs as torch operators, eager and under torch.compile. After `import hipress.torch` there are, for each codec:

    torch.ops.hipress.<codec>_encode(gradient, <state>=None, ..., *, options="", seed=0, step=0, tensor=0, scale=1.0)
    torch.ops.hipress.<codec>_decode(payload, count, *, options="")
    torch.ops.hipress.<codec>_decode_accumulate(payload, output, *, options="")

A gradient is a contiguous float32 tensor of any shape, on the CPU or an NVIDIA GPU; a payload is a uint8 tensor of
exactly its length. On a GPU a message has a few bytes more (gpu_codec_operators.py). A state has the gradient's size or
one value for each block if the codec's program says so, and encoding updates it in place; for a state given as None,
encoding uses zeros and keeps nothing. `options` is the text between the parentheses of a codec: "bitwidth=2,
stochastic=true". `seed`, `step` and `tensor` choose the random numbers; encoding first multiplies the gradient by
`scale`. Decoding adds to `output`, or returns `count` values. No operator has a derivative.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.torch import gpu_codec_operators
from hipress.torch.gpu_codec_operators import exact_payload, gpu_message, wait_for_gpu

__all__ = ["exact_payload", "gpu_message", "register", "register_fakes", "register_gpu", "wait_for_gpu"]

_core = load_core()  # libhipress, which the operators link to, is in the process from here on
_LIBRARY = Path(__file__).with_name("libhipress_torch_codecs.so")
try:
    torch.ops.load_library(str(_LIBRARY))
except OSError as error:
    raise Unsupported(
        f"the codec operators for PyTorch cannot be loaded: {error}. They need torch 2.10 or newer (this is "
        f"{torch.__version__}), when HiPress is built and when it runs."
    ) from error


def register(name: str) -> None:
    """Makes the operators of the codec `name`, unless they exist. Raises InvalidArgument if there is no such codec."""
    if hasattr(torch.ops.hipress, f"{name}_encode"):
        return
    known = [codec["name"] for codec in _core.describe_codecs()]
    if name not in known:
        raise InvalidArgument(f"codec '{name}' does not exist; the codecs are {', '.join(known)}")
    torch.ops.hipress.register_codec(name)
    register_fakes(name)
    register_gpu(name)


def register_fakes(name: str) -> None:
    """Tells torch.compile what the operators of the codec `name` return.

    register() calls it. After loading operators that `hipress compll build` wrote, call it yourself.
    """
    torch.library.register_fake(f"hipress::{name}_encode", _encoded)
    torch.library.register_fake(f"hipress::{name}_decode", _decoded)
    torch.library.register_fake(f"hipress::{name}_decode_accumulate", _accumulated)


def register_gpu(name: str) -> None:
    """Makes the operators of the codec `name` take CUDA tensors.

    register() calls it. After loading operators that `hipress compll build` wrote, call it yourself; the codec itself
    must be loaded, too.
    """
    gpu_codec_operators.register(name)


def _encoded(gradient: torch.Tensor, *states: torch.Tensor | None, **arguments: Any) -> torch.Tensor:
    size = torch.library.get_ctx().new_dynamic_size()  # the payload's length depends on the values
    return gradient.new_empty(size, dtype=torch.uint8)


def _decoded(payload: torch.Tensor, count: int, **arguments: Any) -> torch.Tensor:
    return payload.new_empty(count, dtype=torch.float32)


def _accumulated(payload: torch.Tensor, output: torch.Tensor, **arguments: Any) -> None:
    return None


for _codec in _core.describe_codecs():
    register(_codec["name"])
