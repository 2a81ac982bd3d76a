# SPDX-License-Identifier: Apache-2.0
"""One value that is not finite makes the payload empty, and leaves all bits of the states unchanged."""

from __future__ import annotations

import numpy as np

from hipress import _core
from tests.cases import each
from tests.codecs.builtin import NAMES, builtin, new_states, normal, same

LARGEST = np.float32(np.finfo(np.float32).max)


@each("name", NAMES)
@each("bad", [np.nan, np.inf, -np.inf])
def test_in_the_last_of_many_elements(name: str, bad: float, isa: str) -> None:
    count = 300_001
    of, good = builtin(name), normal(count)
    spoilt = good.copy()
    spoilt[-1] = bad
    states = new_states(of, count)
    of.codec.encode(good, states)
    before = {state: array.copy() for state, array in states.items()}
    for threads in (1, 2, 3):
        assert of.codec.encode(spoilt, states, step=1, threads=threads) == b"", threads
        assert of.codec.encode(spoilt, threads=threads) == b"", threads
        for state, array in states.items():
            assert same(array, before[state]), (threads, state)
    reference = {state: array.copy() for state, array in before.items()}
    assert of.codec.encode(good, states, step=1) == of.codec.encode(good, reference, step=1), "the next step goes on"


@each("name", NAMES)
@each(("count", "at"), [(1, 0), (16, 15), (17, 16), (1000, 0), (1000, 500), (1000, 999)])
def test_anywhere(name: str, count: int, at: int, isa: str) -> None:
    of, values = builtin(name), normal(count)
    values[at] = np.inf
    states = new_states(of, count)
    payload = of.codec.encode(values, states)
    assert payload == b""
    assert not any(array.any() for array in states.values())
    assert np.isnan(of.codec.decode(payload, count)).all()


@each("name", NAMES)
def test_a_scale_that_makes_values_infinite(name: str, isa: str) -> None:
    of, values = builtin(name), np.full(40, 1e30, np.float32)
    states = new_states(of, 40)
    assert of.codec.encode(values, states, scale=1e30) == b""
    assert not any(array.any() for array in states.values())


@each(
    "name",
    ["onebit", "tbq", "int8(error_feedback=true)", "int4", "fp8_e5m2(error_feedback=true)", "fp4_e2m1", "efsignsgd"],
)
def test_a_residual_that_would_be_infinite(name: str, isa: str) -> None:
    residual = np.full(40, LARGEST)
    assert builtin(name).codec.encode(np.full(40, LARGEST), {"residual": residual}) == b""
    assert (residual == LARGEST).all()


@each("name", ["dgc", "graddrop", "topk"])
def test_a_sum_that_is_infinite_is_sent_and_nothing_of_it_kept(name: str, isa: str) -> None:
    """Infinite values may be sent, because no state keeps a sent value. With one infinite value more than can be sent,
    encode refuses the gradient."""
    of = builtin(f"{name}(ratio=0.1)")
    for infinite, sent in ((10, True), (11, False)):
        states = new_states(of, 100)
        states["residual"][:infinite] = LARGEST
        before = states["residual"].copy()
        gradient = np.ones(100, np.float32)
        gradient[:infinite] = LARGEST
        payload = of.codec.encode(gradient, states)
        if sent:
            assert np.isposinf(of.codec.decode(payload, 100)[:10]).all()
            assert all(np.isfinite(array).all() for array in states.values())
            assert not states["residual"][:10].any()
        else:
            assert payload == b""
            assert same(states["residual"], before)


@each("name", ["none", "fp16", *NAMES])
def test_the_empty_payload_is_not_a_number_everywhere(name: str) -> None:
    codec = _core.create_codec(name)
    for accumulate in (False, True):
        for threads in (1, 3):
            output = np.ones(300_001, np.float32)
            codec.decode_into(b"", output, accumulate=accumulate, threads=threads)
            assert np.isnan(output).all()
