# SPDX-License-Identifier: Apache-2.0
"""The codec operators of codec_operators.py for CUDA tensors.

An operator puts its work on torch's current stream and returns. Neither the processor nor the stream waits for the
other, so a message (uint8) has the codec's maximal size, and its end tells the payload's size:

    payload, unused bytes up to a multiple of 4, uint32 size of the payload in bytes, uint32 error number

`<codec>_decode` of a CUDA tensor takes such messages. exact_payload() gives the payload without the rest, as on the
CPU; gpu_message() makes a message of a payload. A payload that the GPU refuses becomes known later: the next codec
operator on that GPU, or wait_for_gpu(), raises CorruptPayload. Until then the values of `<codec>_decode` are NaN, and
`<codec>_decode_accumulate` has added nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.gpus import gpu

if TYPE_CHECKING:
    from hipress._core import Codec, DeviceOperators

_core = load_core()
_END: int = _core.DEVICE_MESSAGE_END
#: torch removes registrations when such an object ends.
_registrations = torch.library.Library("hipress", "IMPL")


def register(name: str) -> None:
    """Makes the operators of the codec `name` take CUDA tensors; their schemas exist."""
    states = next(tuple(each["states"]) for each in _core.describe_codecs() if each["name"] == name)

    def encode(gradient: torch.Tensor, *given: torch.Tensor | None, **arguments: Any) -> torch.Tensor:
        return _encode(name, dict(zip(states, given, strict=False)), gradient, **arguments)

    def decode(payload: torch.Tensor, count: int, options: str = "") -> torch.Tensor:
        return _decode(_core.operator_codec(name, options), payload, count)

    def decode_accumulate(payload: torch.Tensor, output: torch.Tensor, options: str = "") -> None:
        _add_decoded(_core.operator_codec(name, options), payload, output)

    operators: dict[str, Callable[..., Any]] = {
        "encode": encode,
        "decode": decode,
        "decode_accumulate": decode_accumulate,
    }
    for operator, function in operators.items():
        _registrations.impl(f"{name}_{operator}", function, "CUDA")


def exact_payload(message: torch.Tensor) -> torch.Tensor:
    """The payload of a message without the bytes after it, on the message's device.

    `message`: uint8, as `<codec>_encode` returned it. A message of the CPU is its payload. Waits for the GPU, because
    the processor needs the size.
    Raises InvalidArgument for a tensor that is no message of a GPU.
    """
    if not message.is_cuda:
        return message
    return without_end(message)


def without_end(message: torch.Tensor) -> torch.Tensor:
    """exact_payload() of a message of a GPU. Raises InvalidArgument."""
    _check(message, torch.uint8, "the message")
    room = message.numel() - _END
    size = -1 if room < 0 or room % 4 else int(message[room : room + 4].cpu().view(torch.int32)) & 0xFFFFFFFF
    if not 0 <= size <= room:
        raise InvalidArgument("the tensor is no message of a GPU's encode: its end does not have a payload's size")
    return message[:size]


def gpu_message(payload: torch.Tensor, device: torch.device | str = "cuda") -> torch.Tensor:
    """A message on `device` for `<codec>_decode`: uint8, the payload, zeros up to a multiple of 4 bytes, and 8 bytes.

    `payload`: uint8, exactly the payload, on any device. Raises InvalidArgument.
    """
    _check(payload, torch.uint8, "the payload")
    room = (payload.numel() + 3) // 4 * 4
    message = torch.zeros(room + _END, dtype=torch.uint8, device=device)
    message[: payload.numel()] = payload.view(-1)
    size = payload.numel().to_bytes(4, "little")
    message[room : room + 4] = torch.frombuffer(bytearray(size), dtype=torch.uint8).to(device)
    return message


def wait_for_gpu(device: torch.device | str = "cuda", timeout: float = 300.0) -> None:
    """Waits until a GPU has done the work of all codec operators so far, at most `timeout` seconds.

    Raises Timeout; CorruptPayload if it has refused a payload, which changed nothing; InvalidArgument if an encode
    broke a rule of its program; TransportError if the GPU has failed.
    """
    place = torch.device(device)
    ordinal = torch.cuda.current_device() if place.index is None else place.index
    operators_on(ordinal).wait(timeout)


@functools.cache
def operators_on(ordinal: int) -> DeviceOperators:
    """The GPU's part. Raises Unsupported, which names what is missing."""
    made: DeviceOperators = _core.DeviceOperators(gpu(ordinal))
    return made


def _here(tensor: torch.Tensor) -> tuple[DeviceOperators, int]:
    """The GPU of the tensor, and the address of its current stream. Raises errors of earlier work."""
    ordinal, stream = _current(tensor)
    operators = operators_on(ordinal)
    operators.raise_error()
    return operators, stream


def _current(tensor: torch.Tensor) -> tuple[int, int]:
    """The number of the tensor's GPU, and the address of its current stream. Raises Unsupported."""
    if torch.cuda.is_current_stream_capturing():
        raise Unsupported(
            "codec operators cannot be captured into a CUDA graph, because HiPress reads their errors after they have "
            "run: capture the parts before and after them"
        )
    return tensor.get_device(), int(torch.cuda.current_stream(tensor.device).cuda_stream)


def _encode(
    name: str,
    given: dict[str, torch.Tensor | None],
    gradient: torch.Tensor,
    options: str = "",
    seed: int = 0,
    step: int = 0,
    tensor: int = 0,
    scale: float = 1.0,
) -> torch.Tensor:
    codec: Codec = _core.operator_codec(name, options)
    _check(gradient, torch.float32, "the gradient")
    states = []
    for state, values in given.items():
        if values is not None:
            what = f"the state {state}"
            _check(values, torch.float32, what, gradient.device)
            if values.numel() == 0 and gradient.numel() > 0:
                raise InvalidArgument(f"{what} has no elements, the gradient {gradient.numel()}")
            states.append((state, *_place(values)))
    operators, stream = _here(gradient)
    count = gradient.numel()
    workspace = gradient.new_empty(operators.workspace_floats(codec, count, states))
    message = gradient.new_empty(operators.message_bytes(codec, count), dtype=torch.uint8)
    operators.encode(
        stream,
        codec,
        _place(gradient),
        states,
        _place(workspace),
        _place(message),
        seed=seed & (2**64 - 1),
        step=step & (2**64 - 1),
        tensor=tensor & (2**32 - 1),
        scale=scale,
    )
    return message


def _decode(codec: Codec, message: torch.Tensor, count: int) -> torch.Tensor:
    if count < 0:
        raise InvalidArgument(f"count is {count}, must not be negative")
    _check(message, torch.uint8, "the payload")
    operators, stream = _here(message)
    output = torch.empty(count, dtype=torch.float32, device=message.device)
    operators.decode(stream, codec, _place(message), _place(output), False)
    return output


def _add_decoded(codec: Codec, message: torch.Tensor, output: torch.Tensor) -> None:
    _check(message, torch.uint8, "the payload")
    _check(output, torch.float32, "the output", message.device)
    operators, stream = _here(message)
    operators.decode(stream, codec, _place(message), _place(output), True)


def _check(tensor: torch.Tensor, dtype: torch.dtype, what: str, device: torch.device | None = None) -> None:
    if tensor.dtype != dtype:
        wanted, given = (str(each).removeprefix("torch.") for each in (dtype, tensor.dtype))
        raise InvalidArgument(f"{what} must be of dtype {wanted}, not {given}")
    if not tensor.is_contiguous():
        raise InvalidArgument(f"{what} must be contiguous; call .contiguous() first")
    if device is not None and tensor.device != device:
        raise InvalidArgument(f"{what} is on {tensor.device}, and the operator's first tensor on {device}")


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.numel()
