# SPDX-License-Identifier: Apache-2.0
"""The variants of an ablation: HiPress with some parts switched off by environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Settings by HIPRESS_* variable.
Settings = dict[str, str]

#: The groups of rows: parts are added one after the other, one part is missing, or links have another schedule.
CUMULATIVE = "one after the other"
WITHOUT = "all but one"
SCHEDULE = "schedule of links"
EVERYTHING = "everything"


@dataclass(frozen=True)
class Variant:
    """A codec with switches. It is measured once, even if several rows show it."""

    name: str
    codec: str
    settings: Settings


@dataclass(frozen=True)
class Line:
    """A row of the table: a variant and its reference. `gains`: whether the variant has the part in question; otherwise
    the reference has it."""

    group: str
    text: str
    variant: str
    compared_with: str | None
    gains: bool = True


def variants_and_lines(codec: str, options: Mapping[str, object]) -> tuple[list[Variant], list[Line]]:
    """The variants and rows. `options`: the engine's options with their defaults; a variant needs all its options."""
    bulk: Settings = {"HIPRESS_BUNDLE_BYTES": "0"}
    if "rounds" in options:
        bulk["HIPRESS_ROUNDS"] = "0"
    pipelining, priorities = {"HIPRESS_PIPELINING": "0"}, {"HIPRESS_PRIORITIES": "0"}
    variants = [
        Variant("plain", "none", {**pipelining, **bulk, **priorities}),
        Variant("codec", codec, {**pipelining, **bulk, **priorities}),
        Variant("codec and pipelining", codec, {**bulk, **priorities}),
        Variant("without priorities", codec, priorities),
        Variant(EVERYTHING, codec, {}),
        Variant("without pipelining", codec, pipelining),
        Variant("without bulk", codec, bulk),
    ]
    lines = [
        Line(CUMULATIVE, "plain", "plain", None),
        Line(CUMULATIVE, f"+ {codec}", "codec", "plain"),
        Line(CUMULATIVE, "+ pipelining", "codec and pipelining", "codec"),
        Line(CUMULATIVE, "+ bulk", "without priorities", "codec and pipelining"),
        Line(CUMULATIVE, "+ priorities: everything", EVERYTHING, "without priorities"),
        Line(WITHOUT, "without pipelining", "without pipelining", EVERYTHING, gains=False),
        Line(WITHOUT, "without bulk", "without bulk", EVERYTHING, gains=False),
        Line(WITHOUT, "without priorities", "without priorities", EVERYTHING, gains=False),
    ]
    for name, settings in _schedules(options).items():
        variants.append(Variant(name, codec, settings))
        lines.append(Line(SCHEDULE, name, name, EVERYTHING))
    return variants, lines


def schedules_and_lines(codec: str, options: Mapping[str, object]) -> tuple[list[Variant], list[Line]]:
    """The schedules of links only, with all other parts: the rows compare each schedule with the default."""
    variants, lines = variants_and_lines(codec, options)
    shown = [Line(SCHEDULE, "the default", EVERYTHING, None), *(line for line in lines if line.group == SCHEDULE)]
    names = {line.variant for line in shown}
    return [variant for variant in variants if variant.name in names], shown


def _schedules(options: Mapping[str, object]) -> dict[str, Settings]:
    """The settings that differ from the defaults."""
    others: dict[str, Settings] = {}
    if "rounds" in options:
        if options["rounds"]:
            others["without link rounds"] = {"HIPRESS_ROUNDS": "0"}
        else:
            others["with link rounds"] = {"HIPRESS_ROUNDS": "1"}
        if options.get("coordinator", "rank0") != "rank0":
            others["link rounds by a coordinator"] = {"HIPRESS_ROUNDS": "1", "HIPRESS_COORDINATOR": "rank0"}
    return others
