# SPDX-License-Identifier: Apache-2.0
"""The job that convergence.py gives to its ranks, as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from benchmarks.convergence.cells import Cell

#: A training is judged so often.
JUDGED = 20


@dataclass(frozen=True)
class Job:
    """Equal on all ranks. `seconds`: no training starts after these. `steps`: of each training; None: the task's.
    `result`: rank 0 adds a line for each training to this file. `gloo_port`: of the rendezvous."""

    cells: list[Cell]
    seconds: float
    steps: int | None
    gloo_port: int
    result: str

    def to_json(self) -> str:
        """What from_json() reads."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """The job of to_json()."""
        fields = json.loads(text)
        return Job(**{**fields, "cells": [Cell(**cell) for cell in fields["cells"]]})
