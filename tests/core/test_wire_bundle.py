# SPDX-License-Identifier: Apache-2.0
"""The document, the slow decoder and the library agree about bundles of messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipress import _core
from hipress.errors import CorruptPayload, InvalidArgument
from tests.core import wire_decoder

DOCUMENT = Path(__file__).parents[2] / "docs" / "wire-format.md"
TAGS = st.tuples(*(st.integers(0, 2**bits - 1) for bits in (31, 32, 16, 16)))
MESSAGES = st.lists(
    st.tuples(TAGS, st.binary(min_size=32, max_size=32), st.binary(max_size=50)), min_size=1, max_size=9
)
TWO = [((5, 2, 0, 1), bytes(range(32)), b"abc"), ((6, 2, 0, 1), bytes(32), b"")]


@given(MESSAGES)
def test_messages_come_back(messages: list[_core.BundledMessage]) -> None:
    bundle = _core.pack_bundle(messages)
    assert len(bundle) == 32 + sum(48 + len(payload) for _, _, payload in messages)
    assert _core.split_bundle(bundle) == messages
    assert wire_decoder.decode_bundle(bundle) == messages


def test_the_documents_example() -> None:
    (dump,) = re.findall(r"```hexdump\n(0000  48 42.*?)```", DOCUMENT.read_text(), re.DOTALL)
    bundle = bytes.fromhex("".join(line[6:] for line in dump.splitlines()))
    header = _core.pack_header(0, "float32", 10, 0, flags=_core.FLAG_ABSENT)
    assert bundle == _core.pack_bundle([((5, 2, 0, 1), header, b""), ((6, 2, 0, 1), header, b"")])
    for _, own, payload in wire_decoder.decode_bundle(bundle):
        assert wire_decoder.decode_message(own + payload).values is None


@pytest.mark.parametrize(
    ("offset", "replacement"),
    [
        (0, b"P"),  # magic
        (2, b"\2"),  # version
        (3, b"\1"),  # flags
        (4, b"\0"),  # count: fewer, more and many more messages than the bundle has
        (4, b"\1"),
        (4, b"\3"),
        (7, b"\xff"),
        (8, b"\0"),  # size
        (15, b"\xff"),
        (31, b"\1"),  # reserved
        (44, b"\4"),  # payload size of the first message: wrong, behind the second, behind all memory
        (44, b"\2"),
        (47, b"\xff"),
        (95, b"\1"),  # payload size of the second message
        (32, b"\xff" * 12),  # the tag and header of a bundle within a bundle
    ],
)
def test_what_does_not_fit_is_refused(offset: int, replacement: bytes) -> None:
    good = _core.pack_bundle(TWO)
    bad = good[:offset] + replacement + good[offset + len(replacement) :]
    with pytest.raises(CorruptPayload):
        _core.split_bundle(bad)
    with pytest.raises(AssertionError):
        wire_decoder.decode_bundle(bad)


@pytest.mark.parametrize("length", [0, 31, 32, 79, 80, 82, 130])
def test_what_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(CorruptPayload):
        _core.split_bundle(_core.pack_bundle(TWO)[:length])


@given(st.data())
def test_bytes_are_split_as_documented_or_refused(data: st.DataObject) -> None:
    bundle = bytearray(_core.pack_bundle(data.draw(MESSAGES)))
    for _ in range(data.draw(st.integers(0, 3))):
        bundle[data.draw(st.integers(0, len(bundle) - 1))] = data.draw(st.integers(0, 255))
    try:
        messages = wire_decoder.decode_bundle(bytes(bundle))
    except AssertionError:
        with pytest.raises(CorruptPayload):
            _core.split_bundle(bytes(bundle))
    else:
        assert _core.split_bundle(bytes(bundle)) == messages


def test_a_bundle_has_a_message_and_is_no_larger_than_receivers_take() -> None:
    with pytest.raises(InvalidArgument):
        _core.pack_bundle([])
    with pytest.raises(InvalidArgument, match="16777216"):
        _core.pack_bundle([((1, 1, 1, 1), bytes(32), bytes(16 << 20))])
