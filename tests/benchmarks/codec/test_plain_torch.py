# SPDX-License-Identifier: Apache-2.0
"""benchmarks/codec/plain_torch.py computes the same codecs as HiPress's interpreter and core."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.codec import command
from hipress._library import load_core
from hipress.compll import Interpreter, compile_builtin

torch = pytest.importorskip("torch")

#: Codecs whose messages have tests of their own.
SAME_MESSAGES = ("onebit", "tbq", "terngrad(bitwidth=2)", "dgc", "graddrop")
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
COUNTS = [1, 3, 8, 1000, 4099]
#: A block size that makes the whole tensor one block, as the codecs in torch have it.
WHOLE = 16777216


@pytest.fixture
def in_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    return importlib.import_module("benchmarks.codec.plain_torch")


def gaussian(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(count, dtype=np.float32)


def steps(in_torch: Any, text: str, count: int, **params: Any) -> Any:
    """Encodes three gradients with the interpreter and with torch. Yields both messages and both decoded vectors."""
    name = text.partition("(")[0]
    theirs = in_torch.create_torch_codec(text, count)
    ours = Interpreter(compile_builtin(name), **params)
    state = ours.new_state(count)
    for step in range(3):
        gradient = gaussian(count, seed=step)
        message = ours.encode(gradient, state, step=step)
        tensors = theirs.encode(torch.from_numpy(gradient))
        out = torch.ones(count)
        theirs.decode(tensors, out)
        yield message, tensors, ours.decode(message, count) + np.float32(1), out.numpy()


@pytest.mark.parametrize("count", COUNTS)
def test_onebit_in_torch_sends_the_same_signs_and_nearly_the_same_means(in_torch: Any, count: int) -> None:
    for message, (means, packed), expected, got in steps(in_torch, "onebit", count, block=WHOLE):
        np.testing.assert_allclose(means.numpy(), np.frombuffer(message[:8], np.float32), rtol=1e-5)
        assert packed.numpy().tobytes() == message[8:]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("count", COUNTS)
def test_tbq_in_torch_sends_the_same_codes(in_torch: Any, count: int) -> None:
    for message, (packed,), expected, got in steps(in_torch, "tbq(threshold=0.75)", count, threshold=0.75):
        # Also the unused bits of the last byte are equal.
        assert packed.numpy().tobytes() == message
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("bitwidth", [1, 2, 4, 8])
@pytest.mark.parametrize("count", COUNTS)
def test_terngrad_in_torch_sends_the_same_codes_where_nothing_is_random(
    in_torch: Any, count: int, bitwidth: int
) -> None:
    text = f"terngrad(bitwidth={bitwidth}, stochastic=false)"
    params = {"bitwidth": bitwidth, "stochastic": False, "block": WHOLE}
    for message, (bounds, packed), expected, got in steps(in_torch, text, count, **params):
        # The interpreter's message carries half the step, because the distance between the largest floats overflows.
        least, half_step = np.frombuffer(message[:8], np.float32)
        assert bounds.tolist() == [least, 2 * half_step]
        assert packed.numpy().tobytes() == message[8:]
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_terngrad_in_torch_is_right_on_average(in_torch: Any) -> None:
    gradient, sum_ = torch.from_numpy(gaussian(1000)), torch.zeros(1000)
    codec = in_torch.create_torch_codec("terngrad", 1000)
    for _ in range(400):
        codec.decode(codec.encode(gradient), sum_)
    # Levels are about 2 apart, so the mean of 400 values has a standard deviation of at most 0.05.
    assert float((sum_ / 400 - gradient).abs().max()) < 0.25


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("text", ["graddrop", "graddrop(ratio=0.01)", "dgc", "dgc(ratio=0.01, momentum=0.5)"])
def test_sparse_codecs_in_torch_send_the_same_largest_values(in_torch: Any, text: str, count: int) -> None:
    params = {"ratio": 0.01} if "ratio" in text else {}
    if "momentum" in text:
        params["momentum"] = 0.5
    for message, (value, index), expected, got in steps(in_torch, text, count, **params):
        sent = int(np.frombuffer(message[:4], np.int32)[0])
        assert index.dtype == torch.int32
        np.testing.assert_array_equal(index.numpy(), np.frombuffer(message[4 : 4 + 4 * sent], np.int32))
        np.testing.assert_allclose(value.numpy(), np.frombuffer(message[4 + 4 * sent :], np.float32), rtol=1e-5)
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.25, 1.0, 4.0])
def test_sparse_codecs_in_torch_adapt_the_threshold_until_about_as_many_values_are_chosen(
    in_torch: Any, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    gradient = torch.from_numpy(gaussian(200_000)) ** 3
    # The codec chooses its threshold from a sample; here the sample's values are scaled by `spread`.
    topk = torch.topk
    monkeypatch.setattr(torch, "topk", lambda sample, k: topk(sample * spread, k))
    value, index = in_torch.create_torch_codec("graddrop", len(gradient)).encode(gradient)
    assert 140 <= len(index) <= 260
    monkeypatch.undo()
    largest = torch.topk(gradient.abs(), len(index)).indices.sort().values
    torch.testing.assert_close(index.long(), largest)
    torch.testing.assert_close(value, gradient[largest])


@pytest.mark.parametrize("text", ["onebit", "tbq", "graddrop", "dgc(momentum=0)"])
def test_memories_in_torch_lose_nothing(in_torch: Any, text: str) -> None:
    codec, sent, given = in_torch.create_torch_codec(text, 1000), torch.zeros(1000), torch.zeros(1000)
    for step in range(5):
        gradient = torch.from_numpy(gaussian(1000, seed=step))
        given += gradient
        codec.decode(codec.encode(gradient), sent)
    kept = codec.memory.accumulated if text.startswith("dgc") else codec.memory.residual
    torch.testing.assert_close(sent + kept, given, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["onebit", "tbq", "terngrad", "dgc", "graddrop"])
def test_torch_does_not_change_the_gradient(in_torch: Any, name: str) -> None:
    gradient = torch.from_numpy(gaussian(1000))
    before, codec = gradient.clone(), in_torch.create_torch_codec(name, 1000)
    for _ in range(2):
        codec.encode(gradient)
    assert torch.equal(gradient, before)


@pytest.mark.parametrize("name", ["onebit", "tbq", "terngrad", "dgc", "graddrop"])
def test_options_in_torch_have_the_defaults_of_the_programs(in_torch: Any, name: str) -> None:
    options = inspect.signature(in_torch.CODECS[name]).parameters
    defaults = {option: given.default for option, given in options.items() if option != "count"}
    params = Interpreter(compile_builtin(name)).params
    others = ("block", "residual_factor", "gradient_factor")
    assert defaults == pytest.approx({option: params[option] for option in params if option not in others})


@pytest.mark.parametrize("text", [text for text in command.CODECS if text not in SAME_MESSAGES])
def test_other_codecs_in_torch_are_as_exact_in_as_many_bytes(in_torch: Any, text: str) -> None:
    torch.manual_seed(1)
    gradient = gaussian(100_003)
    ours, decoded = command.Ours(load_core().create_codec(text), gradient, 1), np.zeros_like(gradient)
    ours.encode()
    ours.decode(decoded)
    theirs, out = in_torch.create_torch_codec(text, len(gradient)), torch.zeros(len(gradient))
    message = theirs.encode(torch.from_numpy(gradient))
    theirs.decode(message, out)
    expected = command.relative_error(decoded, gradient)
    assert command.relative_error(out.numpy(), gradient) == pytest.approx(expected, rel=0.02)
    # HiPress's payload also carries the number of values.
    assert sum(part.nbytes for part in message) == pytest.approx(len(ours.payload), abs=8)


def test_codecs_that_torch_does_not_have(in_torch: Any) -> None:
    assert in_torch.create_torch_codec("none", 10) is None
    with pytest.raises(ValueError, match="has options that"):
        in_torch.create_torch_codec("onebit(size=3)", 10)
