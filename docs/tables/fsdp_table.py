# SPDX-License-Identifier: Apache-2.0
"""The results of benchmarks/fsdp as a table."""

from __future__ import annotations

from collections.abc import Mapping

import benchmark_tables as tables

#: The results, by the number of hosts.
FSDP = {2: "fsdp-2-1gbit", 4: "fsdp-4-1gbit"}
_INTRODUCTION = """\
FSDP2 gathers a model's parameters before forward and before backward, and reduces and scatters its gradients:
[all three in `int8`](guide/pytorch.md#weights-between-shards), beside FSDP2 over Gloo in float32, and with bfloat16
values on the links and passes in float32. *Computing*: the step of a rank that trains by itself. The emulated hosts
share two cores, so with four of them processors are a part of the step.
"""
_HEADS = (
    "Hosts | System | Time of a step: | Computing: | Sent per step and rank: | Faster than float32: | Than bfloat16:"
)
_SYSTEMS = {"fsdp": "float32", "fsdp-bf16": "bfloat16", "fsdp-int8": "`int8`"}


def fsdp_table(results: Mapping[int, tables.Result]) -> str:
    """A row for each system and number of hosts."""
    if not all(results.values()):
        return f"{_INTRODUCTION}\n{tables.NOT_MEASURED.capitalize()}.\n"
    lines = [
        line for hosts, result in results.items() for line in _lines(hosts, {row["system"]: row for row in result})
    ]
    some = next(iter(results.values()))[0]
    caption = (
        f"{some['parameters']:,} parameters, links of {some['rate']}, {some['rank_tokens']} bytes of text per rank and "
        "step.\n\n"
    )
    return f"{_INTRODUCTION}\n{caption}{tables.table(_HEADS, lines)}"


def _lines(hosts: int, rows: dict[str, tables.Row]) -> list[tuple[str, ...]]:
    alone = tables.seconds(rows["alone"]["time_s"])
    return [
        (
            *(str(hosts), name, tables.seconds(row["time_s"]), alone, f"{row['step_bytes'] / 1e6:,.1f} MB"),
            *(f"{row['fp32_speedup_ratio']:.2f} ×", f"{row['bf16_speedup_ratio']:.2f} ×"),
        )
        for system, name in _SYSTEMS.items()
        for row in [rows[system]]
    ]
