# SPDX-License-Identifier: Apache-2.0
"""A table of constants (check/tables.py makes it): a vector whose elements the compiler knows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.passes.fuse import Planner
from hipress.compll.passes.needs import Need, Needs, NeedsOf
from hipress.compll.passes.operators import Planning
from hipress.compll.reference.evaluate import Environment, dtype


def meaning(op: ir.Constants, environment: Environment) -> NDArray[Any]:
    return np.array(op.values, dtype(op.type))


def _plan(planner: Planner, name: str, op: ir.Constants) -> None:
    planner.ready[Need("count", name)] = 0


def _needs(of: NeedsOf, op: ir.Constants) -> Needs:
    return Needs()


PLANNING = Planning(_plan, _needs)
