# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of a recorded demo into docs/guide/choosing-a-codec.md, so that no number is typed by hand.

python examples/torch/demo.py --output docs/images      record
python docs/update_figures.py                           write
python docs/update_figures.py --check                   fail if the page is not in step with the record
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "choosing-a-codec.md"
RECORD = ROOT / "docs" / "images" / "digits.json"
BEGIN, END = "<!-- figures: begin (docs/update_figures.py) -->\n", "<!-- figures: end -->\n"


def render(record: dict[str, Any]) -> str:
    """The table and the sentences below it. They have step times only if the record is of an idle machine."""
    runs = record["runs"]
    plain = runs[0]
    idle = record["load_before"] < record["cores"] / 4
    lines = [
        "| Codec | Test accuracy | Sent per step and rank | in the last epoch |" + " Step time |" * idle,
        "|-------|--------------:|-----------------------:|------------------:|" + "----------:|" * idle,
    ]
    for run in runs:
        sent, seconds = run["bytes_per_step_and_rank"], run["median_step_seconds"]
        lines.append(
            f"| `{run['codec']}` | {run['test_accuracy']:.2%} "
            f"| {sent / 1e3:,.1f} kB ({sent / plain['bytes_per_step_and_rank']:.1%}) "
            f"| {run['bytes_by_epoch'][-1] / plain['bytes_by_epoch'][-1]:.1%} |"
            + (f" {seconds * 1e3:.1f} ms ({seconds / plain['median_step_seconds']:.2f}×) |" if idle else "")
        )
    lines.append("")
    lines.append(
        f"{plain['world_size']} processes on {record['cores']} cores of one machine, {len(plain['loss'])} steps, "
        f"seed {plain['seed']}" + ("; median step time." if idle else ". The machine was busy: no step times.")
    )
    for run in runs:
        if run["warmup_codecs"]:
            first, epochs = run["warmup_codecs"][0], len(run["warmup_codecs"])
            lines.append(f"`{run['codec']}` began as `{first}` and sent less from epoch to epoch for {epochs} epochs.")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the recorded demo's numbers into choosing-a-codec.md.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the page is out of step")
    check = parser.parse_args().check
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()}")
    updated = before + BEGIN + render(json.loads(RECORD.read_text())) + END + after
    if updated == text:
        return 0
    if check:
        print(f"{PAGE.name} is not in step with {RECORD.relative_to(ROOT)}: run python docs/update_figures.py")
        return 1
    PAGE.write_text(updated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
