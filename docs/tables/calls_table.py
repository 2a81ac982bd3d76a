# SPDX-License-Identifier: Apache-2.0
"""The results of benchmarks/calls.py as a table."""

from __future__ import annotations

from collections.abc import Mapping

import benchmark_tables as tables

#: The results, by what their gradients are.
CALLS = {"256 elements each": "calls-2-1gbit-50ms-small", "of ResNet-50": "calls-2-1gbit-50ms-resnet50"}
_INTRODUCTION = """\
Ranks agree on the tensors of a named call through rank 0. A call does not wait for rank 0's answer: its tensor starts
to travel when the answer comes. So a burst of calls takes one round trip more than a list on which the ranks have
agreed before ([decision 066](decisions/066-named-calls-do-not-wait-for-rank-0.md)).
"""
_HEADS = "Gradients | Way | Time: | More than the list:"
_WAYS = {
    "list": "a list that ranks agreed on before, as `DistributedOptimizer` has",
    "calls": "`hp.allreduce_async_()` for each, then `hp.synchronize()`",
    "gloo": "`torch.distributed.all_reduce(async_op=True)` for each, over Gloo",
}


def calls_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each way and list of gradients, by the list's name."""
    if not all(results.values()):
        return f"{_INTRODUCTION}\n{tables.NOT_MEASURED.capitalize()}.\n"
    lines = [_line(name, row) for name, result in results.items() for row in result]
    some = next(iter(results.values()))[0]
    caption = (
        f"{some['world']} hosts, links of {some['rate']}, {some['round_trip_ms']:g} ms from host to host and back, "
        "no codec.\n\n"
    )
    return f"{_INTRODUCTION}\n{caption}{tables.table(_HEADS, lines)}"


def _line(name: str, row: tables.Row) -> tuple[str, ...]:
    gradients = f"{row['tensors']}, {name}"
    more = "–" if row["way"] == "list" else f"{1000 * row['more_than_list_s']:+,.0f} ms"
    return gradients, _WAYS[row["way"]], tables.seconds(row["time_s"]), more
