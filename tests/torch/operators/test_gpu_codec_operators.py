# SPDX-License-Identifier: Apache-2.0
"""The codec operators' kernels for CUDA tensors give the messages and states of the processor, without a GPU.

The dispatcher runs them with tensors of the processor, and HiPress' work goes to a stream of the stand-in for the
driver. torch frees memory of the processor at once, so the stream is waited for after each call.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument, TransportError, Unsupported
from hipress.torch import codec_operators, gpu_codec_operators
from tests.core.casync.blocks import limits_program
from tests.core.device.fake_gpus import HostKernels, fake_driver
from tests.torch.scaling.codecs_with_states import ENCODED

pytestmark = pytest.mark.slow

ON_GPUS = [codec["name"] for codec in _core.describe_codecs() if _core.create_codec(codec["name"]).kernels is not None]
LONGEST = 60.0
COUNTS = (1, 7, 700, 5001)


class Waiting:
    """DeviceOperators whose calls return when the stream has done their work."""

    def __init__(self, device: Any, stream: int) -> None:
        self.inner = _core.DeviceOperators(device)
        self._queue = _core.SlotQueue(device, stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode(self, *arguments: Any, **numbers: Any) -> None:
        self.inner.encode(*arguments, **numbers)
        self._queue.wait(LONGEST)

    def decode(self, *arguments: Any) -> None:
        self.inner.decode(*arguments)
        self._queue.wait(LONGEST)


@pytest.fixture(scope="module")
def gpu() -> tuple[Waiting, int]:
    handle = ctypes.c_void_p()
    device = _core.cuda_device(0, compiler=HostKernels(), driver=str(fake_driver()))
    ctypes.CDLL(str(fake_driver())).cuStreamCreate(ctypes.byref(handle), 0)
    assert handle.value is not None
    return Waiting(device, handle.value), handle.value


@pytest.fixture(autouse=True)
def on_it(gpu: tuple[Waiting, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gpu_codec_operators, "_current", lambda _: (0, gpu[1]))
    monkeypatch.setattr(gpu_codec_operators, "operators_on", lambda _: gpu[0])
    yield
    gpu[0].inner.wait(LONGEST)


def run(operator: str, *arguments: Any, **numbers: Any) -> Any:
    """Runs the kernel that torch has for CUDA tensors."""
    function = getattr(torch.ops.hipress, operator).default
    return function.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), *arguments, **numbers)


def gradient(count: int, step: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(count + step))


@pytest.mark.parametrize("name", ON_GPUS)
def test_messages_states_and_values_are_the_processors(name: str) -> None:
    codec = _core.create_codec(name)
    for count in COUNTS:
        states = {state: torch.zeros(count) for state in codec.states}
        reference = {state: np.zeros(count, np.float32) for state in codec.states}
        for step in range(3):
            numbers: dict[str, Any] = {"seed": 7, "step": step, "tensor": 2, "scale": 0.5}
            values = gradient(count, step)
            message = run(f"{name}_encode", values, *states.values(), **numbers)
            expected = codec.encode(values.numpy(), reference or None, **numbers)
            assert message.numel() == (codec.max_encoded_bytes(count) + 3) // 4 * 4 + 8
            assert gpu_codec_operators.without_end(message).numpy().tobytes() == expected, (count, step)
            for state, kept in states.items():
                np.testing.assert_array_equal(kept.numpy(), reference[state])
            decoded = run(f"{name}_decode", message, count)
            np.testing.assert_array_equal(decoded.numpy(), codec.decode(expected, count))
            total = torch.ones(count)
            run(f"{name}_decode_accumulate", message, total)
            torch.testing.assert_close(total, decoded + 1, rtol=0, atol=0)


def test_states_of_blocks_are_the_processors(tmp_path_factory: pytest.TempPathFactory) -> None:
    name = limits_program.load(tmp_path_factory.getbasetemp() / "limits")
    codec_operators.register(name)
    codec = _core.create_codec(name)
    for count in COUNTS:
        lengths = {"residual": count, "limit": limits_program.blocks(count)}
        states = {state: torch.zeros(length) for state, length in lengths.items()}
        reference = {state: np.zeros(length, np.float32) for state, length in lengths.items()}
        for step in range(3):
            values = gradient(count, step)
            expected = codec.encode(values.numpy(), reference)
            message = run(f"{name}_encode", values, *states.values())
            assert gpu_codec_operators.without_end(message).numpy().tobytes() == expected
            for state, kept in states.items():
                np.testing.assert_array_equal(kept.numpy(), reference[state])
        # One of the two is left out: zeros stand for it.
        alone, known = torch.zeros(count), np.zeros(count, np.float32)
        message = run(f"{name}_encode", gradient(count), alone, None)
        zeros = np.zeros(lengths["limit"], np.float32)
        expected = codec.encode(gradient(count).numpy(), {"residual": known, "limit": zeros})
        assert gpu_codec_operators.without_end(message).numpy().tobytes() == expected
        np.testing.assert_array_equal(alone.numpy(), known)
    with pytest.raises(InvalidArgument, match=r"state limit has 700 elements, .* it has one for each 256"):
        run(f"{name}_encode", gradient(700), torch.zeros(700), torch.zeros(700))


def test_a_payload_of_the_processor_becomes_a_message() -> None:
    values = gradient(1001)
    payload = torch.ops.hipress.onebit_encode(values)
    message = codec_operators.gpu_message(payload, "cpu")
    assert torch.equal(gpu_codec_operators.without_end(message), payload)
    assert torch.equal(run("onebit_decode", message, 1001), torch.ops.hipress.onebit_decode(payload, 1001))
    assert codec_operators.exact_payload(payload) is payload
    with pytest.raises(InvalidArgument, match="no message of a GPU's encode"):
        gpu_codec_operators.without_end(torch.full((16,), 255, dtype=torch.uint8))


def test_a_state_may_be_left_out_and_one_of_two_kept() -> None:
    values, residual = gradient(700), torch.zeros(700)
    with_state = run("onebit_encode", values, residual)
    assert torch.equal(with_state, run("onebit_encode", values))
    assert residual.count_nonzero() > 0
    # dgc has a velocity and a residual; the first call reads zeros for the one that is missing.
    first, second = (torch.zeros(700) for _ in range(2))
    states = _core.create_codec("dgc").states
    assert len(states) == 2
    message, expected = run("dgc_encode", values, first), torch.ops.hipress.dgc_encode(values, second)
    assert torch.equal(gpu_codec_operators.without_end(message), expected)
    assert torch.equal(first, second)


def test_a_gradient_that_is_not_finite_leaves_the_state_and_decodes_to_nan() -> None:
    values, residual = gradient(700), torch.full((700,), 0.5)
    values[3] = float("inf")
    message = run("onebit_encode", values, residual)
    assert gpu_codec_operators.without_end(message).numel() == 0
    assert torch.equal(residual, torch.full((700,), 0.5))
    assert run("onebit_decode", message, 700).isnan().all()


@pytest.mark.parametrize("text", ENCODED)
def test_no_state_changes_in_a_step_that_is_not_finite(text: str) -> None:
    codec = _core.create_codec(text)
    options = text.partition("(")[2].rstrip(")")
    states = [torch.zeros(-(-700 // codec.state_block(each))) for each in codec.states]
    for step, bad in enumerate([0.0, 0.0, math.nan, 0.0, 0.0, 0.0]):
        before, values = [each.clone() for each in states], gradient(700, step)
        values[3] += bad
        message = run(f"{codec.name}_encode", values, *states, options=options, step=step)
        assert (gpu_codec_operators.without_end(message).numel() == 0) == (bad != 0)
        assert all(map(torch.equal, before, states)) == (bad != 0)


def test_a_tensor_without_elements() -> None:
    message = run("onebit_encode", torch.zeros(0, 3), torch.zeros(0))
    assert gpu_codec_operators.without_end(message).numel() == 0
    assert run("onebit_decode", message, 0).shape == (0,)


def _encode_for(seconds: float) -> None:
    """Encodes until the GPU has told an error."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run("onebit_encode", gradient(700))


def test_a_refused_payload_changes_nothing_and_is_told_later(gpu: tuple[Waiting, int]) -> None:
    message = run("onebit_encode", gradient(700))
    total = torch.ones(900)
    run("onebit_decode_accumulate", message, total)  # of 700 elements
    assert torch.equal(total, torch.ones(900))
    with pytest.raises(CorruptPayload, match="an earlier decode on cuda:0: codec onebit: "):
        gpu[0].inner.wait(LONGEST)
    assert run("onebit_decode", message, 900).isnan().all()
    with pytest.raises(CorruptPayload, match="an earlier decode on cuda:0"):
        _encode_for(LONGEST)
    assert run("onebit_decode", message, 700).isfinite().all()


def test_a_gpu_that_fails_is_told() -> None:
    """On a stream and a device of its own, which stay unusable."""
    driver = ctypes.CDLL(str(fake_driver()))
    device = _core.cuda_device(1, compiler=HostKernels(), driver=str(fake_driver()))
    handle = ctypes.c_void_p()
    driver.cuStreamCreate(ctypes.byref(handle), 0)
    operators, codec = _core.DeviceOperators(device), _core.operator_codec("onebit", "")
    values = gradient(700)
    message = torch.zeros(operators.message_bytes(codec, 700), dtype=torch.uint8)
    places = [(each.data_ptr(), each.numel()) for each in (values, message)]
    numbers: dict[str, Any] = {"seed": 0, "step": 0, "tensor": 0, "scale": 1.0}
    operators.encode(handle.value or 0, codec, places[0], [], (0, 0), places[1], **numbers)
    operators.wait(LONGEST)
    driver.hipress_test_fail_after(0)
    try:
        operators.encode(handle.value or 0, codec, places[0], [], (0, 0), places[1], **numbers)
        with pytest.raises(TransportError, match="device cuda:1 failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
            operators.wait(LONGEST)
    finally:
        driver.hipress_test_fail_after(-1)


@pytest.mark.parametrize(
    ("operator", "arguments", "options", "words"),
    [
        ("onebit_encode", lambda g: (g.double(),), "", "gradient must be of dtype float32, not float64"),
        ("onebit_encode", lambda g: (g.view(10, 10).t(),), "", r"contiguous; call .contiguous\(\) first"),
        ("onebit_encode", lambda g: (g, torch.zeros(3)), "", "residual has 3 elements, the gradient 100"),
        ("onebit_encode", lambda g: (g, torch.zeros(0)), "", "residual has no elements"),
        ("onebit_encode", lambda g: (g, torch.zeros(100)), "error_feedback=false", "does not keep it"),
        ("onebit_encode", lambda g: (g,), "feedback=true", "no option 'feedback'"),
        ("onebit_decode", lambda g: (g, 4), "", "payload must be of dtype uint8, not float32"),
        ("onebit_decode", lambda g: (torch.zeros(6, dtype=torch.uint8), 4), "", "the payload has 6 bytes"),
        ("onebit_decode", lambda g: (torch.zeros(13, dtype=torch.uint8)[1:], 4), "", "multiple of 4 bytes"),
        ("onebit_decode", lambda g: (torch.zeros(12, dtype=torch.uint8), -1), "", "must not be negative"),
    ],
)
def test_wrong_use_is_told_at_once(operator: str, arguments: Any, options: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        run(operator, *arguments(gradient(100)), options=options)


def test_a_codec_without_code_for_gpus_is_refused() -> None:
    with pytest.raises(Unsupported, match="codec none has no code for cuda:0"):
        run("none_encode", gradient(100))


def test_torch_compile_knows_the_results_on_a_gpu() -> None:
    with FakeTensorMode() as mode:
        values = FakeTensor(mode, torch.empty(100, device="meta"), torch.device("cuda:0"))
        payload = FakeTensor(mode, torch.empty(24, dtype=torch.uint8, device="meta"), torch.device("cuda:0"))
        decoded = torch.ops.hipress.onebit_decode(payload, 100)
        assert (decoded.device, decoded.dtype, decoded.shape) == (values.device, torch.float32, (100,))
