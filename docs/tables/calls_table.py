# SPDX-License-Identifier: Apache-2.0
"""The results of benchmarks/calls.py as a table."""

from __future__ import annotations

from collections.abc import Mapping

import benchmark_tables as tables

_HEADS = "Gradients | Way | Time: | More than the list:"
_WAYS = {
    "list": "a list that ranks agreed on before, as `DistributedOptimizer` has",
    "calls": "`hp.allreduce_async_()` for each, then `hp.synchronize()`",
    "gloo": "`torch.distributed.all_reduce(async_op=True)` for each, over Gloo",
}


def calls_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each way and list of gradients, by the list's name."""
    if not all(results.values()):
        return tables.NOT_MEASURED.capitalize() + ".\n"
    lines = [_line(name, row) for name, result in results.items() for row in result]
    some = next(iter(results.values()))[0]
    caption = (
        f"{some['world']} hosts, links of {some['rate']}, {some['round_trip_ms']:g} ms from host to host and back, "
        "no codec.\n\n"
    )
    return caption + tables.table(_HEADS, lines)


def _line(name: str, row: tables.Row) -> tuple[str, ...]:
    gradients = f"{row['tensors']}, {name}"
    more = "–" if row["way"] == "list" else f"{1000 * row['more_than_list_s']:+,.0f} ms"
    return gradients, _WAYS[row["way"]], tables.seconds(row["time_s"]), more
