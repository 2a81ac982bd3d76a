# SPDX-License-Identifier: Apache-2.0
"""The number of each codec on the wire; docs/wire-format.md lists the same numbers."""

from __future__ import annotations

import zlib

#: The codecs that come with HiPress. A number never changes and is never given to another codec.
BUILTIN = {
    "onebit": 16,
    "tbq": 17,
    "terngrad": 18,
    "dgc": 19,
    "graddrop": 20,
    "bf16": 21,
    "int8": 22,
    "int4": 23,
}
#: Smaller numbers are reserved for codecs that come with HiPress; core/codec/codec.h checks the same limit.
FIRST_OF_USERS = 1024


def of_user(name: str, text: str) -> int:
    """The number of a user's codec, from its name and text: ranks with different programs use different numbers."""
    return FIRST_OF_USERS + zlib.crc32(f"{name} {text}".encode()) % (2**32 - FIRST_OF_USERS)
