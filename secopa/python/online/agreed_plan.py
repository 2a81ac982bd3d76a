# SPDX-License-Identifier: Apache-2.0
"""Gives all ranks one plan, which rank 0 makes, because predicted times may differ in the last bit between ranks."""

from __future__ import annotations

import json
from collections.abc import Callable

from hipress import _core
from hipress.errors import HipressError, InvalidArgument
from hipress.secopa.plan.plan import Plan


def agreed_plan(engine: _core.Engine, make: Callable[[], Plan]) -> Plan:
    """The plan of `make()`, which rank 0 calls. All ranks call this function together and wait for rank 0.

    Raises InvalidArgument on every rank, with rank 0's reason, if rank 0 could not make a plan.
    """
    mine = b""
    if engine.rank == 0:
        try:
            mine = json.dumps({"plan": make().to_json()}).encode()
        except HipressError as error:
            mine = json.dumps({"error": str(error)}).encode()
    said = json.loads(engine.allgather("plan", mine)[0])
    if "error" in said:
        raise InvalidArgument(f"rank 0 could not plan: {said['error']}")
    return Plan.parse(said["plan"], "rank 0's plan")
