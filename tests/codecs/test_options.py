# SPDX-License-Identifier: Apache-2.0
"""Errors about options name the codec, the option and its range; errors about arrays name the size that fits."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.errors import InvalidArgument
from tests.cases import each
from tests.codecs.builtin import NAMES, builtin


@each(
    ("codec", "option", "values", "allowed"),
    [
        ("onebit", "block", ["63", "0", "-1", "16777217"], r"in \[64, "),
        ("tbq", "threshold", ["0", "-1"], r"in \(0, inf\)"),
        ("terngrad", "block", ["63", "16777217"], r"in \[64, "),
        ("terngrad", "bitwidth", ["0", "3", "16", "-1"], "one of 1, 2, 4, 8"),
        ("dgc", "momentum", ["1", "-0.1", "1.5"], r"in \[0, 1\)"),
        ("dgc", "ratio", ["0", "1.1", "-1"], r"in \(0, 1\]"),
        ("dgc", "sample_rate", ["0", "1.1"], r"in \(0, 1\]"),
        ("graddrop", "ratio", ["0", "2"], r"in \(0, 1\]"),
        ("graddrop", "sample_rate", ["0", "-0.5"], r"in \(0, 1\]"),
        ("int8", "block", ["15", "0", "-1", "16777217"], r"in \[16, "),
        ("int4", "block", ["15", "16777217"], r"in \[16, "),
        ("fp8_e4m3", "block", ["15", "16777217"], r"in \[16, "),
        ("fp4_e2m1", "block", ["15"], r"in \[16, "),
        ("qsgd", "levels", ["0", "128", "-1"], r"in \[1, 127\]"),
        ("thc", "levels", ["0", "128"], r"in \[1, 127\]"),
        ("thc", "reach", ["0.9", "8.1"], r"in \[1, 8\]"),
        ("topk", "ratio", ["0", "1.1"], r"in \(0, 1\]"),
        ("threshold", "threshold", ["0", "-1"], r"in \(0, inf\)"),
        ("randomk", "ratio", ["0"], r"in \(0, 1\]"),
        ("onebit", "residual_factor", ["-0.1", "1.1", "inf"], r"in \[0, 1\]"),
        ("dgc", "gradient_factor", ["0", "-1", "1.1"], r"in \(0, 1\]"),
    ],
)
def test_out_of_range(codec: str, option: str, values: list[str], allowed: str) -> None:
    for value in values:
        with pytest.raises(InvalidArgument, match=f"^codec {codec}: option {option} is {value}; it must be {allowed}"):
            _core.create_codec(f"{codec}({option}={value})")


@each(
    ("text", "message"),
    [
        ("onebit(block=64.5)", "option block is '64.5', which is not an integer"),
        ("onebit(block=1e3)", "not an integer"),
        ("tbq(threshold=nan)", "threshold"),
        ("tbq(threshold=inf)", "threshold"),
        ("tbq(threshold=one)", "not a number"),
        ("terngrad(bitwidth=2.0)", "not an integer"),
        ("terngrad(stochastic=1)", "option stochastic is '1', must be true or false"),
        ("dgc(ratio=nan)", "ratio"),
        ("terngrad(error_feedback=true)", "no option 'error_feedback'"),
        ("bf16(error_feedback=true)", "no option 'error_feedback'"),
        ("int8(error_feedback=1)", "option error_feedback is '1', must be true or false"),
        ("int8(residual_factor=0.5)", "with error_feedback=false no residual is kept: leave the option out, or set"),
        ("tbq(gradient_factor=0.5, error_feedback=false)", "gradient_factor is 0.5, a factor beside the residual, and"),
        ("terngrad(residual_factor=0.5)", "no option 'residual_factor'"),
        ("powersgd(residual_factor=0.5)", "no option 'residual_factor'"),
    ],
)
def test_not_of_the_options_type(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _core.create_codec(text)


@each(
    "text",
    ["onebit(block=64)", "onebit(block=16777216)", "dgc(momentum=0, ratio=1, sample_rate=1)", "tbq(threshold=1e-40)"],
)
def test_the_ends_of_ranges_belong_to_them(text: str) -> None:
    assert _core.create_codec(text).signature.startswith(text[:-1])


@each("name", NAMES)
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    codec, values = builtin(name).codec, np.ones(10, np.float32)
    with pytest.raises(TypeError):
        codec.encode(values.astype(np.float64))
    with pytest.raises(TypeError):
        codec.encode(np.ones(20, np.float32)[::2])
    with pytest.raises(InvalidArgument, match="room for"):
        codec.encode_into(values, [], [], np.empty(codec.max_encoded_bytes(10) - 1, np.uint8))
    for state in codec.states:
        states = {each: np.zeros(10, np.float32) for each in codec.states}
        with pytest.raises(InvalidArgument, match="9 elements"):
            codec.encode(values, states | {state: np.zeros(9, np.float32)})
        states[state].flags.writeable = False
        with pytest.raises(InvalidArgument, match="read-only"):
            codec.encode(values, states)
    if not codec.states:
        with pytest.raises(InvalidArgument, match="keeps none"):
            codec.encode(values, {"residual": np.zeros(10, np.float32)})
    values.flags.writeable = False
    assert codec.encode(values)


@each("name", [name for name in NAMES if name not in ("terngrad", "bf16")])
def test_without_error_feedback_there_are_no_states(name: str) -> None:
    without = _core.create_codec(f"{name}(error_feedback=false)")
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    assert without.states == ()
    assert without.encode(values) == builtin(name).codec.encode(values)


def test_factors_of_one_leave_the_signature_as_it_is() -> None:
    for text in ("onebit", "dgc", "int8(error_feedback=true)"):
        codec = builtin(text).codec
        ones = text.replace(")", ", ").replace("onebit", "onebit(").replace("dgc", "dgc(")
        assert _core.create_codec(f"{ones}residual_factor=1.0, gradient_factor=1)").signature == codec.signature
        half = _core.create_codec(f"{ones}residual_factor=0.5)").signature
        assert half == codec.signature[:-1] + ", residual_factor=0.5)"


@each("name", ["fp16", *NAMES])
def test_more_elements_than_a_message_can_have_are_never_worth_encoding(name: str) -> None:
    codec = _core.create_codec(name)
    assert codec.max_encoded_bytes(2**31 - 1) < 4 * (2**31 - 1)
    for count in (2**31, 2**32, 2**64 - 1):
        assert codec.max_encoded_bytes(count) == 2**64 - 1
