# SPDX-License-Identifier: Apache-2.0
"""Writes the tags and sizes of the recorded wheels into docs/guide/installing.md.

make wheels                                 record
python docs/update_wheels.py                write
python docs/update_wheels.py --check        fail if the page is not in step with the record
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "installing.md"
RECORD = ROOT / "benchmarks" / "results" / "wheels.json"
BEGIN, END = "<!-- wheels: begin (docs/update_wheels.py) -->\n", "<!-- wheels: end -->\n"


def render(files: list[dict[str, str | int]]) -> str:
    """The table, with a row for each file."""
    lines = ["| file | size | unpacked |", "|---|--:|--:|"]
    for one in files:
        size, unpacked = (f"{int(one[key]) / 2**20:.1f} MiB" for key in ("bytes", "unpacked_bytes"))
        lines.append(f"| `{one['file']}` | {size} | {unpacked} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    text = PAGE.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()}")
    wanted = before + begin + render(json.loads(RECORD.read_text())["files"]) + end + after
    if wanted == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.name} is not in step with {RECORD.relative_to(ROOT)}: run python docs/update_wheels.py")
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
