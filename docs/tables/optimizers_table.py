# SPDX-License-Identifier: Apache-2.0
"""Writes results of benchmarks/optimizers.py as tables, for the pages about choosing a codec and about Adam."""

from __future__ import annotations

import benchmark_tables as tables

#: The heads of the columns, by the optimizers' names in the result.
_HEADS = {"sgd": "SGD", "momentum": "with momentum", "adamw": "AdamW", "adamw-fast": "AdamW"}
#: A loss that exceeds DDP's by more than this (nats) is printed in bold.
FAR = 0.1


def optimizers_table(result: tables.Result) -> str:
    """A row for each codec, and a sentence about dgc with the momentum of both the codec and the optimizer."""
    if not result:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    rates = {row["optimizer"]: row["learning_rate"] for row in result}
    names = [name for name in _HEADS if name in rates]
    lines = []
    for label in dict.fromkeys(_label(row) for row in result if row["optimizer"] in names):
        rows = {row["optimizer"]: row for row in result if _label(row) == label}
        cells = [_loss(rows[name]) if name in rows else "" for name in names]
        lines.append((label, *cells, _sent([row for name, row in rows.items() if name in names])))
    first = result[0]
    text = "licences" if first.get("text") == "licences" else f"the text of Python {first['python']}"
    caption = (
        f"{first['parameters']:,} parameters, {first['ranks']} ranks, {first['steps']} steps, each of "
        f"{first['sequences']} sequences of 64 characters per rank; {text}.\n\n"
    )
    heads = " | ".join(f"{_HEADS[name]}, {rates[name]:g}:" for name in names)
    return caption + tables.table(f"Codec | {heads} | Sent per step and rank:", lines) + _twice(result)


def adam_table(results: list[tables.Result]) -> str:
    """The table of AdamW training runs: a row for each codec, with the loss of each seed and the mean."""
    if not all(results):
        return tables.NOT_MEASURED.capitalize() + ".\n"
    seeds = [{_label(row): row for row in result or []} for result in results]
    lines = []
    for label in seeds[0]:
        rows = [seed[label] for seed in seeds]
        mean = sum(row["loss_nats"] for row in rows) / len(rows)
        lines.append((label, *(f"{row['loss_nats']:.3f}" for row in rows), f"{mean:.3f}", _sent(rows)))
    first = (results[0] or [])[0]
    heads = " | ".join(f"Seed {next(iter(seed.values()))['seed']}:" for seed in seeds)
    caption = (
        f"{first['parameters']:,} parameters, {first['ranks']} ranks, {first['steps']} steps, AdamW's learning rate "
        f"{first['learning_rate']:g}. The loss in nats per character, on text that training did not see.\n\n"
    )
    return caption + tables.table(f"Codec | {heads} | Mean: | Sent per step and rank:", lines)


def own_table(result: tables.Result) -> str:
    """The table of the optimizers that belong to codecs: a row for each, and for AdamW with two learning rates."""
    if not result:
        return tables.NOT_MEASURED.capitalize() + ".\n"
    first = result[0]
    lines = [(_own_label(row), f"{row['learning_rate']:g}", _loss_alone(row), _sent([row])) for row in result]
    caption = (
        f"{first['parameters']:,} parameters, {first['ranks']} ranks, {first['steps']} steps, seed {first['seed']}. "
        "The loss in nats per character, on text that training did not see.\n\n"
    )
    return caption + tables.table("Optimizer | Learning rate: | Loss: | Sent per step and rank:", lines)


def _own_label(row: tables.Row) -> str:
    return "AdamW, DistributedDataParallel" if row["codec"] is None else f"`{row['system']}`"


def _loss_alone(row: tables.Row) -> str:
    return "no number" if row["loss_nats"] is None else f"{row['loss_nats']:.3f}"


def _label(row: tables.Row) -> str:
    if row["codec"] is None:
        return "DistributedDataParallel"
    if row.get("system", "hipress") != "hipress":
        return f"`{row['system']}` in place of AdamW"
    # With SGD dgc has no momentum, so the label leaves out the option.
    return f"`{row['codec'].replace(', momentum=0)', ')').replace('(momentum=0)', '')}`"


def _sent(rows: list[tables.Row]) -> str:
    """The mean of the bytes over the optimizers; with a freeze, the bytes of a step after it."""
    frozen = [row["bytes_frozen"] for row in rows if row.get("bytes_frozen") is not None]
    sent = frozen or [row["bytes"] for row in rows if row["bytes"] is not None]
    if not sent:
        return "–"
    share = f", after {rows[0]['frozen_after']:.0%} of the steps" if frozen else ""
    return f"{sum(sent) / len(sent) / 1000:,.0f} kB{share}"


def _loss(row: tables.Row) -> str:
    if row["loss_nats"] is None:
        return "**no number**"
    far = row["above_ddp_nats"] is None or row["above_ddp_nats"] > FAR
    return f"**{row['loss_nats']:.3f}**" if far else f"{row['loss_nats']:.3f}"


def _twice(result: list[tables.Row]) -> str:
    lines = [row for row in result if row["optimizer"] == "momentum-twice"]
    return "".join(f"\n`{row['codec']}` and an optimizer that has momentum, too: {_loss(row)}.\n" for row in lines)
