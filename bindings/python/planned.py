# SPDX-License-Identifier: Apache-2.0
"""The argument `plan` of every distributed optimizer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from hipress.errors import InvalidArgument

if TYPE_CHECKING:
    from hipress.secopa.plan import Plan

#: A plan, or the file that it is in; None: there is none.
PlanArgument: TypeAlias = "Plan | str | os.PathLike[str] | None"


def plan_of(argument: PlanArgument) -> Plan | None:
    """Raises InvalidArgument if the file cannot be read or is no plan."""
    from hipress.secopa.plan import Plan

    if argument is None or isinstance(argument, Plan):
        return argument
    if isinstance(argument, str | os.PathLike):
        return Plan.read(os.fspath(argument))
    raise InvalidArgument(f"plan={argument!r}: give a file that `hipress plan` has written, or a hipress.secopa Plan")
