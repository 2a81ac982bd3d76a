# SPDX-License-Identifier: Apache-2.0
"""PyTorch's codec operators give the core's messages, change states in place, raise the core's errors, and work in
torch.compile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hipress
from hipress import _core
from hipress.errors import InvalidArgument
from hipress.torch import codec_operators
from tests.core.casync.blocks import limits_program

pytestmark = pytest.mark.slow

BUILTIN = [codec["name"] for codec in _core.describe_codecs()]
operators: Any = torch.ops.hipress


def gradient(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def states_of(name: str, count: int) -> dict[str, torch.Tensor]:
    return {state: torch.zeros(count) for state in _core.create_codec(name).states}


@pytest.mark.parametrize("name", BUILTIN)
def test_messages_and_states_are_the_cores(name: str) -> None:
    values, states = gradient(20, 35), states_of(name, 700)
    reference = {state: np.zeros(700, np.float32) for state in states}
    codec = _core.create_codec(name)
    for step in range(3):
        numbers = {"seed": 7, "step": step, "tensor": 2, "scale": 0.5}
        message = getattr(operators, f"{name}_encode")(values, **states, **numbers)
        expected = codec.encode(values.numpy().reshape(-1), reference or None, **numbers)
        assert message.numpy().tobytes() == expected
        for state, kept in states.items():
            np.testing.assert_array_equal(kept.numpy(), reference[state])
        decoded = getattr(operators, f"{name}_decode")(message, 700)
        np.testing.assert_array_equal(decoded.numpy(), codec.decode(expected, 700))
        total = torch.ones(700)
        getattr(operators, f"{name}_decode_accumulate")(message, total)
        torch.testing.assert_close(total, decoded + 1, rtol=0, atol=0)


def test_states_of_blocks_are_the_cores(tmp_path_factory: pytest.TempPathFactory) -> None:
    name = limits_program.load(tmp_path_factory.getbasetemp() / "limits")
    codec_operators.register(name)
    codec, encode = _core.create_codec(name), getattr(operators, f"{name}_encode")
    values = gradient(700)
    states = {"residual": torch.zeros(700), "limit": torch.zeros(3)}
    reference = {state: kept.numpy().copy() for state, kept in states.items()}
    for _ in range(3):
        assert encode(values, **states).numpy().tobytes() == codec.encode(values.numpy(), reference)
        for state, kept in states.items():
            np.testing.assert_array_equal(kept.numpy(), reference[state])
    alone = torch.zeros(3)
    zeros = {"residual": np.zeros(700, np.float32), "limit": np.zeros(3, np.float32)}
    assert encode(values, limit=alone).numpy().tobytes() == codec.encode(values.numpy(), zeros)
    np.testing.assert_array_equal(alone.numpy(), zeros["limit"])
    for wrong in (2, 700):
        says = f"state limit has {wrong} elements, the gradient 700; it has one for each 256 of them: pass 3"
        with pytest.raises(RuntimeError, match=says):
            encode(values, torch.zeros(700), torch.zeros(wrong))


@pytest.mark.parametrize("name", BUILTIN)
def test_operators_pass_torchs_own_checks(name: str) -> None:
    values, states = gradient(100), states_of(name, 100)
    encode, decode = getattr(operators, f"{name}_encode"), getattr(operators, f"{name}_decode")
    message = encode(values)
    torch.library.opcheck(encode.default, (values, *states.values()), {"step": 3})
    torch.library.opcheck(decode.default, (message, 100))
    torch.library.opcheck(getattr(operators, f"{name}_decode_accumulate").default, (message, torch.ones(100)))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.thorough
def test_a_compiled_step_is_the_eager_step(backend: str) -> None:
    def step(g: torch.Tensor, residual: torch.Tensor, total: torch.Tensor, number: int) -> Any:
        message = operators.onebit_encode(g * 2, residual, step=number)
        operators.onebit_decode_accumulate(message, total)
        return operators.onebit_decode(message, g.numel()) + 1, message

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    for count in (100, 200):  # the second count makes shapes dynamic
        eager, other = ([torch.zeros(count), torch.zeros(count)] for _ in range(2))
        for number in range(3):
            results = zip(
                (*step(gradient(count), *eager, number), *eager),
                (*compiled(gradient(count), *other, number), *other),
                strict=True,
            )
            assert all(torch.equal(left, right) for left, right in results)


def test_a_state_may_be_left_out() -> None:
    values, residual = gradient(50), torch.zeros(50)
    assert torch.equal(operators.onebit_encode(values), operators.onebit_encode(values, residual))
    assert residual.count_nonzero() > 0
    options = "error_feedback=false"
    assert torch.equal(operators.onebit_encode(values), operators.onebit_encode(values, options=options))


def test_factors_of_the_residual_and_of_the_gradient() -> None:
    values, kept, same = gradient(50), torch.full((50,), 0.5), torch.full((50,), 0.25)
    message = operators.onebit_encode(values, kept, options="residual_factor=0.5, gradient_factor=0.25", scale=2.0)
    assert torch.equal(message, operators.onebit_encode(values, same, scale=0.5))
    assert torch.equal(kept, same)


def test_a_gradient_that_is_not_finite_leaves_the_state_and_decodes_to_nan() -> None:
    values, residual = gradient(50), torch.full((50,), 0.5)
    values[3] = float("inf")
    message = operators.onebit_encode(values, residual)
    assert message.shape == (0,)
    assert torch.equal(residual, torch.full((50,), 0.5))
    assert operators.onebit_decode(message, 50).isnan().all()


def test_a_tensor_without_elements() -> None:
    message = operators.onebit_encode(torch.zeros(0, 3), torch.zeros(0))
    assert message.shape == (0,)
    assert operators.onebit_decode(message, 0).shape == (0,)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda g: operators.onebit_encode(g.double()), "gradient must be of dtype float32, not float64"),
        (lambda g: operators.onebit_encode(g.t()), r"contiguous; call .contiguous\(\) first"),
        (lambda g: operators.onebit_encode(g, torch.zeros(3)), "residual has 3 elements, the gradient 100"),
        (lambda g: operators.onebit_encode(g, torch.zeros(0)), "residual has no elements"),
        (lambda g: operators.onebit_encode(g, torch.zeros(100), options="error_feedback=false"), "does not keep it"),
        (lambda g: operators.onebit_encode(g, options="feedback=true"), "no option 'feedback'"),
        (lambda g: operators.onebit_decode(g, 4), "payload must be of dtype uint8, not float32"),
        (lambda g: operators.onebit_decode(operators.onebit_encode(g), 10), "codec onebit: "),
        (lambda g: operators.onebit_decode(operators.onebit_encode(g), -1), "must not be negative"),
    ],
)
def test_wrong_use_is_told_in_the_cores_words(use: Callable[[torch.Tensor], Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        use(gradient(10, 10))


def test_a_codec_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgument, match=r"codec 'twobit' does not exist; the codecs are .*onebit"):
        codec_operators.register("twobit")


_LOADED = """
#include <algorithm>
#include <cstring>

#include "core/codec/plugin.h"

// Sends the values; the states count the calls and hold the last sent values.
class Remember final : public hipress::Codec {
 public:
  std::string_view name() const override { return "remember"; }
  std::string signature() const override { return "remember"; }
  hipress::CodecId id() const override { return 5001; }
  std::span<const hipress::CodecState> states() const override {
    static const hipress::CodecState names[] = {{"calls"}, {"step"}};
    return names;
  }
  size_t maxEncodedBytes(size_t count) const override { return 4 * count; }
  size_t encode(std::span<const float> input, const hipress::EncodeStates& states, const hipress::EncodeContext&,
                hipress::Bytes output) const override {
    std::memcpy(output.data(), input.data(), input.size_bytes());
    if (!states.after.empty()) {
      for (size_t i = 0; i < input.size(); ++i) states.after[0][i] = states.before[0][i] + 1;
      std::ranges::copy(input, states.after[1]);
    }
    return input.size_bytes();
  }

 protected:
  void decodePayload(hipress::ConstBytes payload, std::span<float> output, hipress::DecodeMode,
                     hipress::Parallel*) const override {
    std::memcpy(output.data(), payload.data(), output.size_bytes());
  }
};

hipress::CodecDescription describe() {
  return {.name = "remember", .id = 5001, .summary = "", .options = {}, .states = {{"calls"}, {"step"}}};
}

hipress::CodecPointer create(const hipress::CodecOptions&) { return std::make_shared<Remember>(); }

const hipress::CodecPlugin* hipress_codec_plugin() {
  static const hipress::CodecPlugin plugin = {
      .compiler = "c++", .describe = describe, .create = create, .fingerprint = "1"};
  return &plugin;
}
"""


def test_a_codec_loaded_later_gets_operators_too(tmp_path: Path) -> None:
    (tmp_path / "codec.cc").write_text(_LOADED)
    library, root = tmp_path / "codec.so", Path(hipress.__file__).parent
    command = ["c++", "-std=c++20", "-shared", "-fPIC", f"-I{Path(__file__).parents[2]}", str(tmp_path / "codec.cc")]
    command += [str(root / "libhipress.so"), "-Wl,--allow-shlib-undefined", "-o", str(library)]
    subprocess.run(command, check=True)
    name = _core.load_codec_library(str(library))
    codec_operators.register(name)
    codec_operators.register(name)
    # Every operator has an argument `step`, so the state `step` gets another name.
    schema = str(operators.remember_encode.default._schema)
    assert "Tensor(s0!)? calls=None, Tensor(s1!)? step_state=None, *, str options" in schema
    values, calls, last = gradient(10), torch.zeros(10), torch.zeros(10)
    encode = torch.compile(lambda g: operators.remember_encode(g, calls, last, step=4), fullgraph=True)
    encode(values)
    message = operators.remember_encode(values, step_state=last, calls=calls)
    assert torch.equal(operators.remember_decode(message, 10), values)
    assert torch.equal(calls, torch.full((10,), 2.0))
    assert torch.equal(last, values)
    operators.remember_encode(values, calls)  # without the second state, the operator reads zeros
    assert torch.equal(calls, torch.full((10,), 3.0))
