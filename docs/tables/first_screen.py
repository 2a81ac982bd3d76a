# SPDX-License-Identifier: Apache-2.0
"""The README's tables: whole training steps, then averages alone.

Every cell stands beside the fastest of the peers that users have without HiPress: DDP, and DDP with torch's own hook
for 16 bits. A cell that loses to it is bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import benchmark_tables as tables

#: The peers of a whole step, and of an average.
STEP_PEERS = ("ddp", "ddp-fp16", "ddp-bf16")
AVERAGE_PEERS = ("gloo-fp32", "gloo-fp16")
_CARRIERS = {"gloo": "Gloo", "nccl": "NCCL"}


def best_peer(result: Sequence[tables.Row], peers: Sequence[str]) -> float | None:
    """The time of the fastest measured peer."""
    times = [tables.time_of(result, peer) for peer in peers]
    return min((time for time in times if time is not None), default=None)


def against(time_s: float | None, peer_s: float | None) -> str:
    """A time, and how many times as fast as the peer it is; bold if it is slower."""
    if time_s is None or peer_s is None:
        return "–"
    text = f"{tables.seconds(time_s)} ({tables.times(peer_s / time_s, 1)})"
    return f"**{text}**" if time_s > peer_s else text


def steps_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each training run, by its description."""
    lines: list[tuple[str, ...]] = []
    for shown, result in results.items():
        if not result:
            lines.append((shown, tables.NOT_MEASURED, *[""] * 6))
            continue
        peer = best_peer(result, STEP_PEERS)
        half = [time for name in STEP_PEERS[1:] if (time := tables.time_of(result, name)) is not None]
        lines.append(
            (
                f"{shown}, {_carrier(result)}",
                tables.seconds(min(row["alone_s"] for row in result if row["alone_s"] is not None)),
                tables.seconds(tables.time_of(result, "ddp")),
                tables.seconds(min(half, default=None)),
                *(
                    against(tables.time_of(result, system), peer)
                    for system in ("hook-int8", "hook-int4", "hook-onebit", "hipress onebit ps")
                ),
            )
        )
    heads = "Four ranks train | Computing alone: | DDP: | DDP, torch's 16-bit hook: | HiPress' hook, `int8`:"
    return tables.table(f"{heads} | `int4`: | `onebit`: | HiPress' optimizer, `onebit`:", lines)


def _carrier(result: Sequence[tables.Row]) -> str:
    """The library that carried DDP's tensors."""
    (ddp,) = [row for row in result if row["system"] == "ddp"]
    return _CARRIERS[ddp.get("group") or "gloo"]


def averages_table(results: Mapping[str, tables.Result]) -> str:
    """A row for each system, a column for each set of gradients and links, by its description."""
    systems = {
        "DDP's all-reduce (Gloo), float32": "gloo-fp32",
        "torch's fp16 hook (Gloo), float16": "gloo-fp16",
        "torch's PowerSGD hook (Gloo)": "powersgd",
        "HiPress' hook (Gloo), `int8`": "hook-int8",
        "HiPress' hook (Gloo), `onebit`": "hook-onebit",
        "HiPress' engine, `onebit`": "hipress onebit",
    }
    lines = []
    for shown, system in systems.items():
        cells = []
        for result in results.values():
            time_s = tables.time_of(result, system)
            if system.startswith(("hook-", "hipress")):
                cells.append(against(time_s, best_peer(result or [], AVERAGE_PEERS)))
            else:
                cells.append(tables.seconds(time_s))
        lines.append((shown, *cells))
    return tables.table("Averaged by | " + " | ".join(f"{shown}:" for shown in results), lines)
