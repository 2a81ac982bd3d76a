# SPDX-License-Identifier: Apache-2.0
"""The results of benchmarks/harm as a block of docs/guide/pytorch/watching.md."""

from __future__ import annotations

import benchmark_tables as tables

from benchmarks.harm.judged import spoke_at, summary, worst_early
from hipress.watching.harm import ERROR, FRESH

_OPTIMIZERS = {"adamw": "AdamW", "momentum": "SGD with momentum", "sgd": "SGD"}
_STANDING = {"good": "none", "bad": "**yes**", "small": "small"}


def harm_table(rows: tables.Result) -> str:
    """The limits, and a line for each codec."""
    limits = (
        f"The limits: `fresh` below {FRESH:g}; with SGD without momentum only of codecs without error feedback, as "
        "delays alone do none there. With Adam, LAMB and optimizers that HiPress does not know also `error` above "
        f"{ERROR:g}, because they divide by second moments, which errors make larger.\n\n"
    )
    if not rows:
        return f"{limits}{tables.NOT_MEASURED.capitalize()}.\n"
    found = summary(rows)
    said = (
        f"On trainings of [the convergence suite](../../convergence.md) they named {found['named_in_time']} of "
        f"{found['bad']} harmed ones in the first third of their steps, and {found['false_alarms']} of {found['good']} "
        "others at any time. The worst figures of that third:\n\n"
    )
    lines = []
    for key in dict.fromkeys((row["task"], row["optimizer"], row["method"]) for row in rows):
        trained = [row for row in rows if (row["task"], row["optimizer"], row["method"]) == key]
        error, fresh = worst_early(trained)
        named = sum(spoke_at(row) is not None for row in trained)
        lines.append(
            (
                f"{key[0]}, {_OPTIMIZERS[key[1]]}",
                f"`{key[2]}`",
                _STANDING[trained[0]["standing"]],
                f"{100 * trained[0]['gap']:+.1f} %",
                f"{error:.2g}",
                f"{fresh:.2f}",
                f"{named} of {len(trained)}",
            )
        )
    heads = "Task, optimizer | Codec | Harm | Gap: | `error`: | `fresh`: | Named:"
    return limits + said + tables.table(heads, lines) + "\nResult: [harm](../../../benchmarks/results/harm.json).\n"


def cost_sentence(rows: tables.Result) -> str:
    """What watching costs."""
    if not rows:
        return f"{tables.NOT_MEASURED.capitalize()}.\n"
    ratios, shares = ([row[name] for row in rows] for name in ("watched_ratio", "share_of_a_long_training"))
    models = ", ".join(dict.fromkeys(row["model"] for row in rows))
    return (
        f"A watched step of two ranks takes {min(ratios):.2f} to {max(ratios):.2f} times another one, where steps are "
        f"averages alone (gradients of {models}; no computing hides anything). In a long training that is "
        f"{100 * max(shares):.2f} % at most. Result: [harm-cost](../../../benchmarks/results/harm-cost.json).\n"
    )
