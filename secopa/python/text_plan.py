# SPDX-License-Identifier: Apache-2.0
"""The original's plan files: a line `name,size,y|n,K` per gradient, sizes in elements of float32.

They say nothing of codec and topology, which are options of the run that uses them, nor of groups. What a plan says
beyond the lines is lost in one; JSON keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hipress.errors import InvalidArgument
from hipress.secopa.choice import RAW
from hipress.secopa.document import read_text, write_text
from hipress.secopa.plan import Decision, Plan


@dataclass(frozen=True)
class TextPlanOptions:
    """What lines do not say."""

    codec: str
    """Of the gradients that are compressed."""
    world: int
    """Ranks."""
    topology: str = "ps"


def lines_of(plan: Plan) -> str:
    """Raises InvalidArgument if the plan says what lines cannot: several codecs, or groups."""
    codecs = sorted({decision.codec for decision in plan.decisions} - {RAW})
    grouped = next((decision for decision in plan.decisions if decision.group is not None), None)
    if len(codecs) > 1 or grouped is not None:
        what = f"codecs {' and '.join(codecs)}" if grouped is None else f"'{grouped.name}' in a group"
        raise InvalidArgument(f"lines name,size,y|n,K cannot say what this plan does ({what}): write a .json file")
    return "".join(
        f"{one.name},{one.elements},{'y' if one.choice.compressed else 'n'},{one.partitions}\n"
        for one in plan.decisions
    )


def write_plan(plan: Plan, path: str | Path) -> None:
    """JSON if `path` ends with .json, else lines."""
    if Path(path).suffix == ".json":
        plan.write(path)
    else:
        write_text(path, lines_of(plan))


def read_plan(path: str | Path, options: TextPlanOptions | None = None) -> Plan:
    """JSON or lines, for which `options` are needed. Raises InvalidArgument with the first line that is wrong."""
    text = read_text(path)
    if text.lstrip().startswith("{"):
        return Plan.parse(text, str(path))
    if options is None:
        raise InvalidArgument(f"{path}: its lines do not say which codec and topology they are for, and how many ranks")
    decisions = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        # Names may have commas.
        words = [word.strip() for word in line.rsplit(",", 3)]
        if (
            len(words) != 4
            or not (words[0] and words[1].isdecimal() and words[3].isdecimal() and int(words[3]))
            or words[2] not in ("y", "n")
        ):
            raise InvalidArgument(f"{path}, line {number}: expected name,size,y|n,K, found '{line.strip()}'")
        decisions.append(
            Decision(
                name=words[0],
                elements=int(words[1]),
                codec=options.codec if words[2] == "y" else RAW,
                topology=options.topology,
                partitions=int(words[3]),
                reason=f"line {number} of {Path(path).name}",
            )
        )
    try:
        return Plan(
            made_by=f"the lines of {Path(path).name}",
            world=options.world,
            topology=options.topology,
            decisions=tuple(decisions),
        )
    except ValueError as error:
        raise InvalidArgument(f"{path}: {error}") from None
