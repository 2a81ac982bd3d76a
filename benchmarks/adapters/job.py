# SPDX-License-Identifier: Apache-2.0
"""The job that adapters.py gives to its ranks, as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """The ranks of one framework: their interpreter, their environment variables, and the port where they meet."""

    framework: str
    python: str
    variables: dict[str, str]
    port: int


@dataclass(frozen=True)
class Job:
    """The settings, equal on all ranks.

    The processes of a node are ranks of `members`, one each. `interface`: the network device whose bytes are counted;
    empty: no device. `turns`: the socket of the process that starts the turns.
    """

    members: list[Member]
    ranks: int
    model: str
    codec: str
    topology: str
    timeout: float
    interface: str
    turns: str

    def to_json(self) -> str:
        """The job as JSON, for a rank's command line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """Parses the JSON of `to_json`."""
        fields = json.loads(text)
        return Job(**{**fields, "members": [Member(**member) for member in fields["members"]]})
