# SPDX-License-Identifier: Apache-2.0
"""The differences between two plans, one line per difference."""

from __future__ import annotations

from hipress.secopa.plan.plan import Decision, Plan


def differences(one: Plan, other: Plan) -> list[str]:
    """The differences that change the runtime's work, in the order of the first plan. Predictions and reasons do not
    count."""
    found = []
    if one.world != other.world:
        found.append(f"ranks: {one.world} | {other.world}")
    theirs = {decision.name: decision for decision in other.decisions}
    for decision in one.decisions:
        its = theirs.pop(decision.name, None)
        if its is None:
            found.append(f"{decision.name}: {_shown(decision)} | not in the second plan")
        elif (decision.choice, decision.elements, decision.dtype) != (its.choice, its.elements, its.dtype):
            found.append(f"{decision.name}: {_shown(decision)} | {_shown(its)}")
    found += [f"{name}: not in the first plan | {_shown(decision)}" for name, decision in theirs.items()]
    return found


def _shown(decision: Decision) -> str:
    group = "" if decision.group is None else f", group {decision.group}"
    return (
        f"{decision.elements} {decision.dtype}, {decision.codec}, {decision.topology}, K={decision.partitions}{group}"
    )
