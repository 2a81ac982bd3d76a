# SPDX-License-Identifier: Apache-2.0
"""The result of benchmarks/diloco.py as a table."""

from __future__ import annotations

import benchmark_tables as tables

_INTRODUCTION = """\
Trainings of a byte-level decoder with [DiLoCo](guide/over-the-internet.md)'s presets and H steps between two
synchronisations, beside DistributedDataParallel, which averages bf16 gradients in every step over Gloo. The loss is the
loss of the outer parameters on text that training did not see. *Of it waiting*: for DDP, the time of a step beyond the
time of a step without synchronisation. *To the loss of DDP's half*: the time until the loss that DDP reaches after half
of its steps.
"""
_DDP, _UNTRAINED = "ddp-bf16", ("alone", "streaming-waiting")
_HEADS = (
    "System | Time of a step: | Of it waiting: | Sent per step and rank: | Loss at DDP's tokens: | "
    "To the loss of DDP's half: | Faster than DDP:"
)


def diloco_table(result: tables.Result) -> str:
    """A row for each training run, and sentences about the bytes and the hidden time."""
    if not result:
        return f"{_INTRODUCTION}\n{tables.NOT_MEASURED.capitalize()}.\n"
    rows = {row["system"]: row for row in result}
    lines = [_line(row) for row in result if row["system"] not in _UNTRAINED]
    ddp = rows[_DDP]
    caption = (
        f"{ddp['parameters']:,} parameters, {ddp['world']} hosts, links of {ddp['rate']}, {ddp['round_trip_ms']:g} ms "
        f"from host to host and back, {ddp['rank_tokens'] // ddp['steps']} bytes of text per rank and step. "
        f"DDP trains for {ddp['steps']} steps; its loss after half of them is {ddp['target_loss_nats']:.3f} nats.\n\n"
    )
    return f"{_INTRODUCTION}\n{caption}" + tables.table(_HEADS, lines) + _sentences(rows)


def _line(row: tables.Row) -> tuple[str, ...]:
    name = "DistributedDataParallel, bf16" if row["system"] == _DDP else f"`{row['system']}`, H = {row['sync_every']}"
    if row["overlap_steps"] is not None:
        name += f", P = {row['fragments']}, τ = {row['overlap_steps']}, {row['codec']}"
    sent, waited = row["step_bytes"], row["waited_percent"]
    at_equal = row["equal_tokens_loss_nats"]
    reached = row["to_target_s"] is not None
    return (
        name,
        tables.seconds(row["step_ms"] / 1000),
        "–" if waited is None else f"{waited:.0f} %",
        "–" if sent is None else f"{sent / 1000:,.1f} kB",
        "–" if at_equal is None else f"{at_equal:.3f}",
        tables.seconds(row["to_target_s"]) if reached else "not reached",
        f"{row['speedup_ratio']:.1f} ×" if reached else "–",
    )


def _sentences(rows: dict[str, tables.Row]) -> str:
    """Sentences about the time that overlap hides, and SparseLoCo's bytes; empty if these were not measured."""
    said = []
    hidden = rows.get("streaming", {}).get("hidden_percent")
    if hidden is not None:
        said.append(
            f"Overlap hides {hidden:.1f} % of the time for which training waits without it. Ranks that "
            "share a core begin an exchange at different times, so smaller τ hides less."
        )
    dense, sparse = (rows.get(name, {}).get("step_bytes") for name in ("diloco", "sparseloco"))
    if dense and sparse:
        said.append(f"`sparseloco` sends a {dense / sparse:.0f}th of the bytes of `diloco`.")
    return "\n" + " ".join(said) + "\n" if said else ""
