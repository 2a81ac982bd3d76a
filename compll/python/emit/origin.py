# SPDX-License-Identifier: Apache-2.0
"""The source of a program: the file's name and text, and the numbers that follow from them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hipress.compll.emit import wire_numbers


@dataclass(frozen=True)
class Origin:
    """`builtin`: the program comes with HiPress and has a fixed number on the wire."""

    file: str
    text: str
    builtin: bool = False

    @property
    def fingerprint(self) -> str:
        """A checksum of the text, by which ranks notice that they have loaded different programs."""
        return f"{zlib.crc32(self.text.encode()):08x}"

    def codec_id(self, name: str) -> int:
        """The codec's number on the wire."""
        return wire_numbers.BUILTIN[name] if self.builtin else wire_numbers.of_user(name, self.text)

    @property
    def summary(self) -> str:
        """The comment at the top of the program, without the licence."""
        lines = []
        for line in self.text.splitlines():
            if not line.startswith("//"):
                break
            if "SPDX" not in line:
                lines.append(line.lstrip("/ ").rstrip())
        return " ".join(lines)
