# SPDX-License-Identifier: Apache-2.0
"""A parameter can have another value when an aggregator encodes merged gradients."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from hipress.compll import CompileError, Interpreter, compile_builtin, compile_text

PROGRAM = """
param ScaledParams {
    float factor = 2.0 in (0, 4] merged 1;
}
void ScaledEncode(float* gradient, uint8* compressed, ScaledParams params) {
    compressed = concat(map(gradient, [&](float x) -> float { return x * params.factor; }));
}
void ScaledDecode(uint8* compressed, float* gradient) {
    extract(compressed, float value[gradient.size]);
    gradient = map(value, [&](float x) -> float { return x; });
}
"""


def test_an_aggregate_is_encoded_with_the_merged_value() -> None:
    codec = Interpreter(compile_text(PROGRAM), factor=3)
    ones = np.ones(3, np.float32)
    assert list(codec.decode(codec.encode(ones), 3)) == [3, 3, 3]
    assert list(codec.decode(codec.for_aggregate().encode(ones), 3)) == [1, 1, 1]


def test_the_merged_value_must_be_allowed() -> None:
    with pytest.raises(CompileError, match="value for merged gradients 9 is not in"):
        compile_text(PROGRAM.replace("merged 1", "merged 9"))


def test_dgc_has_no_momentum_where_gradients_are_merged() -> None:
    codec = _core.create_codec("dgc(momentum=0.5, ratio=0.01)")
    reference = Interpreter(compile_builtin("dgc"), momentum=0.5, ratio=0.01).for_aggregate()
    assert reference.params["momentum"] == 0
    gradient = np.random.default_rng(1).standard_normal(5000).astype(np.float32)
    states = {name: np.full(5000, 0.25, np.float32) for name in codec.states}
    expected = {name: values.copy() for name, values in states.items()}
    assert codec.for_aggregate().encode(gradient, states) == reference.encode(gradient, expected)
    for name in states:
        np.testing.assert_array_equal(states[name], expected[name])
