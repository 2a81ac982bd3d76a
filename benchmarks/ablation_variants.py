# SPDX-License-Identifier: Apache-2.0
"""What an ablation compares: HiPress with some of its parts switched off. The switches are those of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Of HIPRESS_* variables.
Settings = dict[str, str]

#: Rows that add one part after the other, rows that lack one, and rows with another schedule for links.
CUMULATIVE = "one after the other"
WITHOUT = "all but one"
SCHEDULE = "schedule of links"
EVERYTHING = "everything"


@dataclass(frozen=True)
class Variant:
    """A codec and switches, measured once however many rows show it."""

    name: str
    codec: str
    settings: Settings


@dataclass(frozen=True)
class Line:
    """A row of the table: a variant, and with which one it is compared. `gains`: whether its time is the shorter one
    where the part is worth something; else it is the other's."""

    group: str
    text: str
    variant: str
    compared_with: str | None
    gains: bool = True


def variants_and_lines(codec: str, options: Mapping[str, object]) -> tuple[list[Variant], list[Line]]:
    """`options`: the engine's, with their defaults; what this HiPress does not have yet is not compared."""
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


def _schedules(options: Mapping[str, object]) -> dict[str, Settings]:
    """Those that are not the default."""
    others: dict[str, Settings] = {}
    if "rounds" in options:
        if options["rounds"]:
            others["without link rounds"] = {"HIPRESS_ROUNDS": "0"}
        else:
            others["with link rounds"] = {"HIPRESS_ROUNDS": "1"}
        if options.get("coordinator", "rank0") != "rank0":
            others["link rounds by a coordinator"] = {"HIPRESS_ROUNDS": "1", "HIPRESS_COORDINATOR": "rank0"}
    return others
