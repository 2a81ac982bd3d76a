# SPDX-License-Identifier: Apache-2.0
"""Every built-in or loaded codec as operators: eager, in tf.function and in graphs.

    message, states = encode("onebit", gradient, {"residual": residual})
    values = decode("onebit", message, tf.size(gradient))
    sums = decode_accumulate("onebit", message, sums)

With device="GPU:0" they work on that GPU, on TensorFlow's stream, and neither the processor nor the stream waits for
the other. There a message is the payload, unused bytes up to a multiple of 4, its size in bytes (uint32) and an error
number (uint32), and only operators with `device` decode it; exact_payload() gives the payload. A payload that the GPU
refuses becomes known later: the next of these operators on that GPU, or wait_for_gpu(), raises CorruptPayload. Until
then decode() gives NaN, and decode_accumulate() has added nothing.

A gradient is a float32 tensor of any shape, a payload (`message`) a uint8 tensor of exactly its length. TensorFlow's
operators change no input: encode() takes states and returns the new ones. A state has the gradient's size, or one value
for each block if the codec's program says so. For a state that is not given, encode() uses zeros and returns nothing.
`options` is the text between the parentheses of a codec: "bitwidth=2, stochastic=true". `seed`, `step` and `tensor`
choose the random numbers; encoding first multiplies the gradient by `scale`. No operator has a derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.tensorflow import operators
from hipress.tensorflow.traced import as_written


@as_written
def encode(
    codec: str,
    gradient: Any,
    states: Mapping[str, Any] | None = None,
    *,
    options: str = "",
    seed: int = 0,
    step: Any = 0,
    tensor: int = 0,
    scale: float = 1.0,
    device: str | None = None,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """The payload, and the new values of the given states. `device`: "GPU:0"; None: the CPU.

    Raises InvalidArgument; Unsupported if there is no such GPU, or no code of the codec for it.
    """
    names = _states_of(codec)
    given = dict(states or {})
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InvalidArgument(f"codec {codec} has no state '{unknown[0]}'; it has {', '.join(names) or 'none'}")
    message, after = operators.encode(
        tf.convert_to_tensor(gradient, tf.float32),
        [tf.convert_to_tensor(value, tf.float32) for value in given.values()],
        tf.cast(step, tf.int64),
        device,
        codec=codec,
        state_names=list(given),
        options=options,
        seed=seed,
        tensor=tensor,
        scale=scale,
    )
    return message, dict(zip(given, after, strict=True))


@as_written
def decode(codec: str, payload: Any, count: Any, *, options: str = "", device: str | None = None) -> tf.Tensor:
    """The `count` values of a payload. `device`: where encode() has made it."""
    _states_of(codec)
    return operators.decode(payload, tf.cast(count, tf.int64), device, codec, options)


@as_written
def decode_accumulate(
    codec: str, payload: Any, values: Any, *, options: str = "", device: str | None = None
) -> tf.Tensor:
    """`values` plus the values of a payload. `device`: where encode() has made it."""
    _states_of(codec)
    return operators.decode_accumulate(payload, tf.convert_to_tensor(values, tf.float32), device, codec, options)


@as_written
def exact_payload(message: Any) -> tf.Tensor:
    """The payload (uint8) of a message that encode() has made on a GPU, without the bytes after it."""
    end = load_core().DEVICE_MESSAGE_END
    return message[: tf.bitcast(message[-end : 4 - end], tf.int32)]


def wait_for_gpu(number: int = 0, timeout: float = 300.0) -> None:
    """Waits until the GPU with this CUDA number has done the work of all codec operators, at most `timeout` seconds.

    Raises Timeout; CorruptPayload if it has refused a payload, which changed nothing; InvalidArgument if an encode
    broke a rule of its program; TransportError if the GPU has failed.
    """
    load_core().process_operators(number).wait(timeout)


def _states_of(name: str) -> list[str]:
    known = {codec["name"]: codec["states"] for codec in load_core().describe_codecs()}
    if name not in known:
        raise InvalidArgument(f"codec '{name}' does not exist; the codecs are {', '.join(known)}")
    return list(known[name])
