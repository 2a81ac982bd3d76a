# SPDX-License-Identifier: Apache-2.0
"""Codecs as operators of mx.nd and mx.sym. After `import hipress.mxnet.codec_operators` there are, for each codec:

    message, length = mx.nd.hipress_<codec>_encode(gradient, <state>, ..., step, options="", seed=0, tensor=0, scale=1)
    mx.nd.hipress_<codec>_decode(message, length, count=count, options="")
    mx.nd.hipress_<codec>_decode_accumulate(message, length, values, options="", out=values)

A gradient is a float32 array of any shape on the CPU. MXNet must know shapes before values: the payload `message` is at
the beginning of a uint8 array that has room for the longest payload, and `length`, one int64, is the payload's length.
The caller passes every state of the codec; a state has the gradient's size, or one value for each block if the codec's
program says so, and encoding updates it in place. `step` is an array of one int64. `options` is the text between the
parentheses of a codec: "bitwidth=2, stochastic=true". `seed`, `step` and `tensor` choose the random numbers; encoding
first multiplies the gradient by `scale`. Decoding returns `count` values, or adds to `values`. No operator has a
derivative.
"""

from __future__ import annotations

from pathlib import Path

import mxnet as mx

from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported

_core = load_core()  # libhipress, which the operators link to, is in the process from here on
_LIBRARY = Path(__file__).with_name("libhipress_mxnet_codecs.so")


def _load() -> None:
    try:
        mx.library.load(str(_LIBRARY), verbose=False)
    except mx.MXNetError as error:
        raise Unsupported(f"the codec operators for MXNet cannot be loaded: {error}") from error


def register(name: str) -> None:
    """Makes the operators of a built-in or loaded codec. Raises InvalidArgument if there is no such codec."""
    if hasattr(mx.nd, f"hipress_{name}_encode"):
        return
    known = [codec["name"] for codec in _core.describe_codecs()]
    if name not in known:
        raise InvalidArgument(f"codec '{name}' does not exist; the codecs are {', '.join(known)}")
    _load()


_load()
