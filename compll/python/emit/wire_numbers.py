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
    "fp8_e4m3": 24,
    "fp8_e5m2": 25,
    "fp4_e2m1": 26,
    "efsignsgd": 27,
    "qsgd": 28,
    "natural": 29,
    "topk": 30,
    "threshold": 31,
    "randomk": 32,
    "u8bit": 33,
    "dynamiq": 34,
    "int8_shared": 40,
    "thc": 41,
}
#: Smaller numbers are reserved for codecs that come with HiPress; core/codec/codec.h checks the same limit.
FIRST_OF_USERS = 1024


def of_user(name: str, text: str) -> int:
    """The number of a user's codec, from its name and text: ranks with different programs use different numbers."""
    return FIRST_OF_USERS + zlib.crc32(f"{name} {text}".encode()) % (2**32 - FIRST_OF_USERS)
