# SPDX-License-Identifier: Apache-2.0
"""Generated code gives the interpreter's bytes, states and decoded values at every instruction-set level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.cases import each
from tests.codecs.builtin import (
    NAMES,
    TEXTS,
    Builtin,
    Floats,
    builtin,
    context,
    documented_bytes,
    inputs,
    new_states,
    normal,
    same,
)
from tests.core import wire_decoder
from tests.core.conftest import at_each_level

SMALL = [0, 1, 7, 15, 16, 17, 65, 1023, 1024, 1025, 4095, 4096, 4097]
LARGE = [32768, 32769, 65535, 65536, 65537]
#: The large sizes of codecs with options; without options they have all of LARGE.
LARGE_WITH_OPTIONS = [32769, 65536]
#: The sizes that are compared with inputs of every kind; the others with a few, and the large ones with fewer.
EVERY_KIND = (0, 1, 17, 1025, 4097)
FEW = ["normal", "many scales", "ties", "NaN at the end"]
FEWER = ["many scales", "NaN at the end"]


@dataclass(frozen=True)
class Step:
    """The interpreter's results for one gradient."""

    gradient: Floats
    payload: bytes
    states: dict[str, Floats]  # after the encode
    decoded: Floats
    added: Floats  # the result of adding the decoded values to ones


def defined(of: Builtin, gradient: Floats, states: dict[str, Floats], step: int) -> Step:
    count = len(gradient)
    payload = of.definition.encode(gradient, states, **context(step, count))
    added = np.ones(count, np.float32)
    of.definition.decode_into(payload, added, accumulate=True)
    kept = {name: state.copy() for name, state in states.items()}
    return Step(gradient, payload, kept, of.definition.decode(payload, count), added)


@lru_cache(4)
def steps_of(text: str, count: int) -> dict[str, list[Step]]:
    """By name of the input: the interpreter's results without states and in two steps with states. A codec without
    states makes one step."""
    of, found = builtin(text), {}
    for name, gradient in inputs(count).items():
        if count in EVERY_KIND or name in (FEWER if count in LARGE else FEW):
            states = of.definition.new_state(count)
            alone = defined(of, gradient, of.definition.new_state(count), 0)
            found[name] = [alone, *(defined(of, gradient, states, step) for step in range(2 if states else 1))]
    return found


@lru_cache(4)
def long_run(text: str, count: int, steps: int) -> list[Step]:
    of, states = builtin(text), builtin(text).definition.new_state(count)
    return [defined(of, normal(count, step), states, step) for step in range(steps)]


def check_decoding(of: Builtin, expected: Step, threads: int, where: object) -> None:
    count = len(expected.gradient)
    assert same(of.codec.decode(expected.payload, count, threads=threads), expected.decoded), where
    added = np.ones(count, np.float32)
    of.codec.decode_into(expected.payload, added, accumulate=True, threads=threads)
    assert same(added, expected.added), where


def check_steps(of: Builtin, expected: list[Step], threads: int, where: object) -> None:
    states = new_states(of, len(expected[0].gradient))
    for number, step in enumerate(expected):
        count = len(step.gradient)
        payload = of.codec.encode(step.gradient, states, **context(number, count), threads=threads)
        assert payload == step.payload, (where, number)
        for name, state in states.items():
            assert same(state, step.states[name]), (where, number, name)
        check_decoding(of, step, threads, (where, number))


def texts_of(name: str) -> list[str]:
    return [text for text in TEXTS if text.partition("(")[0] == name]


# The interpreter takes most of the time, so each of its results is compared at all levels before it computes the next.


@pytest.mark.parametrize("name", NAMES)
def test_awkward_sizes_and_values(name: str) -> None:
    with_options = product(texts_of(name)[1:], [*SMALL, *LARGE_WITH_OPTIONS])
    for text, count in chain(product([name], [*SMALL, *LARGE]), with_options):
        expected = steps_of(text, count)
        for isa in at_each_level():
            for values, (alone, *steps) in expected.items():
                where = (text, count, values, isa)
                assert builtin(text).codec.encode(alone.gradient, **context(0, count)) == alone.payload, where
                check_steps(builtin(text), steps, 1, where)


@each("text", TEXTS)
def test_twenty_steps_of_state(text: str) -> None:
    for isa in at_each_level():
        check_steps(builtin(text), long_run(text, 1025, 20), 1, isa)


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_threads_gives_one_result(name: str) -> None:
    for text in texts_of(name):
        expected = long_run(text, 300_001, 2)
        for isa in at_each_level():
            for threads in (1, 2, 3):
                check_steps(builtin(text), expected, threads, (text, isa, threads))


@pytest.mark.slow
@each("text", NAMES)
@pytest.mark.thorough
def test_threads_on_a_million_values(text: str) -> None:
    expected = long_run(text, 1 << 20, 1)
    for isa in at_each_level():
        for threads in (1, 2, 3):
            check_steps(builtin(text), expected, threads, (isa, threads))


@pytest.mark.parametrize("text", TEXTS)
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_values_and_states(text: str, data: st.DataObject) -> None:
    of, count = builtin(text), data.draw(st.integers(0, 100))
    gradient = data.draw(arrays(np.float32, count, elements=st.floats(width=32)))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    before = {name: data.draw(arrays(np.float32, count, elements=finite)) for name in of.codec.states}
    expected = {name: state.copy() for name, state in before.items()}
    payload = of.definition.encode(gradient, expected, **context(1, count))
    for isa in at_each_level():
        states = {name: state.copy() for name, state in before.items()}
        assert of.codec.encode(gradient, states, **context(1, count)) == payload, isa
        assert all(same(state, expected[name]) for name, state in states.items()), isa


@each("text", TEXTS)
def test_an_independent_decoder_gives_the_same_values(text: str) -> None:
    of = builtin(text)
    for count in (0, 1, 7, 16, 17, 1025):
        for name, steps in steps_of(text, count).items():
            for step in (steps[0], steps[-1]):
                values = wire_decoder.decode_payload(of.codec.id, step.payload, count, of.options)
                assert same(np.array(values, np.float32), step.decoded), (count, name)
                assert len(step.payload) <= documented_bytes(of, count), (count, name)
    for step in long_run(text, 1025, 20)[-2:]:
        values = wire_decoder.decode_payload(of.codec.id, step.payload, 1025, of.options)
        assert same(np.array(values, np.float32), step.decoded)


@each("text", TEXTS)
def test_bounds_are_the_documented_ones(text: str) -> None:
    of = builtin(text)
    for count in (*SMALL, *LARGE, 10**6, 10**9 + 7, 2**31 - 1):
        bound = of.codec.max_encoded_bytes(count)
        assert bound == documented_bytes(of, count) == of.definition.max_encoded_bytes(count), count
