# SPDX-License-Identifier: Apache-2.0
"""The encoded changes between two versions of a tensor equal a reference in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument

SIZES = [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000]


def number(value: int) -> bytes:
    """The number in seven bits per byte, the lowest bits first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def reference(old: NDArray[np.uint8], now: NDArray[np.uint8], element_bytes: int) -> bytes:
    """The encoded changes by the format of docs/wire-format.md, written from the page alone."""
    differs = (old.reshape(-1, element_bytes) != now.reshape(-1, element_bytes)).any(axis=1)
    out, described, at = b"", 0, 0
    while at < differs.size:
        if not differs[at]:
            at += 1
            continue
        first = at
        while at < differs.size and differs[at]:
            at += 1
        count = at - first
        out += number((first - described) << 1 | (count > 1))
        out += number(count - 2) if count > 1 else b""
        out += now[first * element_bytes : at * element_bytes].tobytes()
        described = at
    return out


def pair(elements: int, element_bytes: int, share: float, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    random = np.random.default_rng(seed)
    old = random.integers(0, 256, elements * element_bytes, np.uint8)
    now = old.copy()
    changed = random.random(elements) < share
    now.reshape(elements, element_bytes)[changed] ^= 0x5A
    return old, now


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("elements", SIZES)
def test_they_are_the_references_and_make_the_new_version(elements: int, element_bytes: int, share: float) -> None:
    old, now = pair(elements, element_bytes, share, elements)
    kept, before = old.copy(), now.copy()
    changes = _core.encode_changes(kept, now, element_bytes, 1 << 30)
    assert changes == reference(old, now, element_bytes)
    assert np.array_equal(kept, now)
    assert np.array_equal(before, now)
    _core.check_changes(changes, old.size, element_bytes)
    _core.apply_changes(old, changes, element_bytes)
    assert np.array_equal(old, now)


@pytest.mark.parametrize("level", ["generic", "x86-64-v3"])
def test_every_instruction_set_finds_the_same(level: str) -> None:
    if level not in _core.isa_levels():
        pytest.skip(f"the processor has no {level}")
    old, now = pair(70_000, 2, 0.003, 1)
    before = _core.isa_level()
    _core.set_isa_level(level)
    try:
        assert _core.encode_changes(old.copy(), now, 2, 1 << 30) == reference(old, now, 2)
    finally:
        _core.set_isa_level(before)


def test_a_nan_that_stays_is_no_change_and_a_zero_that_turns_negative_is_one() -> None:
    old = np.array([np.nan, 0.0, 1.0], np.float32)
    now = np.array([np.nan, -0.0, 1.0], np.float32)
    changes = _core.encode_changes(old.view(np.uint8).copy(), now.view(np.uint8), 4, 100)
    assert changes == b"\x02" + np.float32(-0.0).tobytes()


def test_more_than_the_limit_is_none_and_the_old_version_is_the_new_one_all_the_same() -> None:
    old, now = pair(1000, 2, 0.5, 0)
    assert _core.encode_changes(old, now, 2, 100) is None
    assert np.array_equal(old, now)


def test_one_percent_of_bfloat16_takes_less_than_a_twentieth() -> None:
    old, now = pair(1_000_000, 2, 0.01, 0)
    changes = _core.encode_changes(old, now, 2, now.size)
    assert changes is not None
    assert len(changes) < 0.02 * now.size


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        (b"\x08\x01\x01", "behind the tensor's end"),
        (b"\x00\x01", "values are cut off"),
        (b"\x80", "cut off in a number"),
        (b"\x80" * 11, "more than 64 bits"),
        (b"\x01\x03" + bytes(10), "behind the tensor's end"),
        (b"\x01" + b"\xff" * 9 + b"\x01", "behind the tensor's end"),
        (b"\xfe" + b"\xff" * 8 + b"\x01", "behind the tensor's end"),
        (b"\x00\x01\x01" + b"\x06\x01\x01", "behind the tensor's end"),
    ],
)
def test_wrong_changes_are_refused(changes: bytes, what: str) -> None:
    tensor = np.zeros(8, np.uint8)
    with pytest.raises(CorruptPayload, match=what):
        _core.check_changes(changes, tensor.size, 2)
    with pytest.raises(CorruptPayload, match=what):
        _core.apply_changes(tensor, changes, 2)


@settings(max_examples=300, deadline=None)
@given(changes=st.binary(max_size=40), elements=st.integers(0, 20))
def test_any_bytes_are_applied_or_refused(changes: bytes, elements: int) -> None:
    tensor = np.zeros(2 * elements, np.uint8)
    try:
        _core.check_changes(changes, tensor.size, 2)
    except CorruptPayload:
        return
    _core.apply_changes(tensor, changes, 2)


def test_wrong_arguments_are_refused() -> None:
    four = np.zeros(4, np.uint8)
    with pytest.raises(InvalidArgument, match="an element has 3 bytes"):
        _core.encode_changes(four, four.copy(), 3, 10)
    with pytest.raises(InvalidArgument, match="older version has 4 bytes, the newer one 2"):
        _core.encode_changes(four, np.zeros(2, np.uint8), 2, 10)
    with pytest.raises(InvalidArgument, match="no whole elements of 8"):
        _core.check_changes(b"", 4, 8)
    four.flags.writeable = False
    with pytest.raises(InvalidArgument, match="read-only"):
        _core.apply_changes(four, b"", 2)
