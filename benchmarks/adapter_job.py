# SPDX-License-Identifier: Apache-2.0
"""What adapters.py asks of its ranks. It travels as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """The ranks of one framework: their interpreter, what they need in their environment, and where they meet."""

    framework: str
    python: str
    variables: dict[str, str]
    port: int


@dataclass(frozen=True)
class Job:
    """What to measure, for all ranks alike. Of each node's processes each is one of `members`' ranks. `interface`: the
    device whose bytes are counted; empty: none. `turns`: the socket of whoever says whose turn it is."""

    members: list[Member]
    ranks: int
    model: str
    codec: str
    topology: str
    timeout: float
    interface: str
    turns: str

    def to_json(self) -> str:
        """For a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """What `to_json` has written."""
        fields = json.loads(text)
        return Job(**{**fields, "members": [Member(**member) for member in fields["members"]]})
