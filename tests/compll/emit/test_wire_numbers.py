# SPDX-License-Identifier: Apache-2.0
"""Codecs have the wire numbers of docs/wire-format.md, and a user's codec gets none of them."""

from __future__ import annotations

import re

from hipress.compll.emit import wire_numbers
from tests.compll.programs import BUILTIN, ROOT


def test_numbers_are_the_documented_ones() -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text()
    documented = {name: int(number) for number, name in re.findall(r"^\| (\d+) \| `(\w+)`", page, re.MULTILINE)}
    assert {name: documented[name] for name in BUILTIN} == wire_numbers.BUILTIN


def test_a_users_codec_has_a_number_of_its_own() -> None:
    one, other = wire_numbers.of_user("mine", "one text"), wire_numbers.of_user("mine", "another text")
    assert one != other
    assert min(one, other) >= wire_numbers.FIRST_OF_USERS
    assert max(one, other) < 2**32
