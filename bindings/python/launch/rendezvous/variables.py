# SPDX-License-Identifier: Apache-2.0
"""Reads a launcher's environment variables strictly: errors name the variable, its value and the expected value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.launch.rendezvous.place import Place


@dataclass(frozen=True)
class Variables:
    """The variables of one launcher. Every method raises `InvalidArgument` with the variable's name."""

    launcher: str
    environ: Mapping[str, str]

    def text(self, name: str, expected: str) -> str:
        """The value of `name`, which must be set and not blank. `expected` describes the valid values in words."""
        value = self.environ.get(name)
        if value is None:
            raise InvalidArgument(
                f"{name} is not set, but other variables of {self.launcher} are; expected {expected}. "
                f"Set all of them (start the job with {self.launcher}) or none."
            )
        if not value.strip():
            raise self.bad(name, expected)
        return value.strip()

    def integer(self, name: str, low: int, high: int | None, expected: str) -> int:
        """The decimal integer in `name`, within low..high (both included; high None: no limit)."""
        text = self.text(name, expected)
        # int() alone would also take "1_0" and non-ASCII digits, which no launcher writes.
        if not (text.isascii() and text.removeprefix("-").isdigit()):
            raise self.bad(name, expected)
        value = int(text)
        if value < low or (high is not None and value > high):
            raise self.bad(name, expected)
        return value

    def place(self, rank: str, size: str, local_rank: str, local_size: str) -> Place:
        """The rank's place from the four variables of these names. It checks that they fit each other."""
        world = self.integer(size, 1, None, "the number of ranks, at least 1")
        mine = self.integer(rank, 0, world - 1, f"a rank from 0 to {size} - 1 = {world - 1}")
        here = self.integer(local_size, 1, world, f"the number of ranks on this host, from 1 to {size} = {world}")
        index = self.integer(local_rank, 0, here - 1, f"a rank on this host, from 0 to {local_size} - 1 = {here - 1}")
        return Place(mine, world, index, here)

    def bad(self, name: str, expected: str) -> InvalidArgument:
        """The error for a wrong value, which the caller raises."""
        return InvalidArgument(f"{name}={self.environ.get(name, '')!r} (set by {self.launcher}): expected {expected}.")
