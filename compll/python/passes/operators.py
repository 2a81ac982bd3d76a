# SPDX-License-Identifier: Apache-2.0
"""How the passes treat each operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hipress.compll import ir

if TYPE_CHECKING:
    from hipress.compll.passes.fuse import Planner
    from hipress.compll.passes.needs import Needs, NeedsOf
    from hipress.compll.passes.vectors import Vectors


def _never(vectors: Vectors, op: Any) -> bool:
    return False


@dataclass(frozen=True)
class Planning:
    """The functions get the operator's node `op`.

    An operator that has `needs` stores no vector: an element is computed where it is used. The other operators put
    their vectors in memory.
    """

    #: Adds the steps and sinks that the operator, whose result is called `name`, becomes.
    plan: Callable[[Planner, str, Any], None]
    #: What must be known before an element can be computed.
    needs: Callable[[NeedsOf, Any], Needs] | None = None
    #: Whether the vector is put in memory although elements could be computed where they are used.
    in_memory: Callable[[Vectors, Any], bool] = _never
    #: Whether every element is certainly greater than the element before it.
    increasing: Callable[[Vectors, Any], bool] = _never
    #: Whether certainly no element occurs twice. Increasing elements are distinct in any case.
    distinct: Callable[[Vectors, Any], bool] = _never
    #: The earliest time at which a store of the vector to the message costs least.
    since: Callable[[Planner, Any], int] | None = None


#: By the operators' nodes; operators/table.py fills it.
PLANNING: dict[type[ir.Operator], Planning] = {}
