# SPDX-License-Identifier: Apache-2.0
"""The original's plan files: a line `name,size,y|n,K` per gradient, with the size in elements of float32.

The lines have no codec and no topology, which are options of the program that follows the plan, and no groups,
predictions or reasons. JSON files have all of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hipress.errors import InvalidArgument
from hipress.secopa.plan.choice import RAW
from hipress.secopa.plan.plan import Decision, Plan
from hipress.secopa.profile.document import MalformedFile, first_fault, read_text, shown, write_text
from hipress.secopa.profile.gradients import MOST_GRADIENTS

_LINE = re.compile(r"(.+),\s*([0-9]{1,18})\s*,\s*([yn])\s*,\s*([1-9][0-9]{0,17})")


@dataclass(frozen=True)
class TextPlanOptions:
    """The facts that the lines of a text plan do not have."""

    codec: str
    """The codec of the compressed gradients."""
    world: int
    """Number of ranks."""
    topology: str = "ps"


def lines_of(plan: Plan) -> str:
    """The plan as lines. Raises InvalidArgument if the plan has several codecs, or groups: lines cannot express
    them."""
    codecs = sorted({decision.codec for decision in plan.decisions} - {RAW})
    grouped = next((decision for decision in plan.decisions if decision.group is not None), None)
    if len(codecs) > 1 or grouped is not None:
        what = f"codecs {' and '.join(codecs)}" if grouped is None else f"'{grouped.name}' in a group"
        raise InvalidArgument(f"lines name,size,y|n,K cannot express this plan ({what}): write a .json file")
    return "".join(
        f"{one.name},{one.elements},{'y' if one.choice.compressed else 'n'},{one.partitions}\n"
        for one in plan.decisions
    )


def write_plan(plan: Plan, path: str | Path) -> None:
    """Writes JSON if `path` ends with .json, else lines."""
    if Path(path).suffix == ".json":
        plan.write(path)
    else:
        write_text(path, lines_of(plan))


def read_plan(path: str | Path, options: TextPlanOptions | None = None) -> Plan:
    """Reads a JSON plan, or lines together with `options`.

    Raises InvalidArgument if the file cannot be read, MalformedFile with the first wrong line or field, or if the file
    has lines and `options` are missing.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        plan = Plan.parse(text, str(path))
        if not plan.decisions:
            raise MalformedFile(f"{path} decides about no gradient")
        return plan
    if options is None:
        raise MalformedFile(f"{path}: its lines do not say which codec and topology they are for, and how many ranks")
    decisions: list[Decision] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        # A name may contain commas.
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise MalformedFile(f"{path}, line {number}: expected name,size,y|n,K, found {shown(line.strip())}")
        if len(decisions) == MOST_GRADIENTS:
            raise MalformedFile(f"{path}, line {number}: more than {MOST_GRADIENTS} gradients")
        name, elements, compressed, partitions = match.groups()
        with _explained(f"{path}, line {number}"):
            decisions.append(
                Decision(
                    name=name.strip(),
                    elements=int(elements),
                    codec=options.codec if compressed == "y" else RAW,
                    topology=options.topology,
                    partitions=int(partitions),
                    reason=f"line {number} of {Path(path).name}",
                )
            )
    with _explained(str(path)):
        return Plan(
            made_by=f"the lines of {Path(path).name}",
            world=options.world,
            topology=options.topology,
            decisions=tuple(decisions),
        )


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Turns pydantic's errors into MalformedFile with the first fault, as Document.parse() does."""
    try:
        yield
    except ValidationError as error:
        raise MalformedFile(f"{where}: {first_fault(error)}") from None
