# SPDX-License-Identifier: Apache-2.0
"""Writes docs/guide/horovod.md's tables of Horovod's names, from docs/horovod_names.json and hipress.horovod.absent.

python docs/update_horovod.py                           write
python docs/update_horovod.py --check                   fail if the page is not in step
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hipress.horovod.absent import ABSENT

ROOT = Path(__file__).parents[1]
NAMES, PAGE = ROOT / "docs" / "horovod_names.json", ROOT / "docs" / "guide" / "horovod.md"
BEGIN, END = "<!-- names: begin (docs/update_horovod.py) -->\n", "<!-- names: end -->\n"
LAUNCHER = "horovodrun"


def tables() -> str:
    """The tables of names: equal names with their modules, then different names with reasons."""
    modules = json.loads(NAMES.read_text())
    launcher = modules.pop(LAUNCHER)
    names = sorted({name for rows in modules.values() for name in rows}, key=str.lower)
    lines = ["| name | " + " | ".join(modules) + " |", "|---" * (len(modules) + 1) + "|"]
    for name in names:
        cells = [rows[name]["is"] if name in rows else "" for rows in modules.values()]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    lines += ["", "| name | in | is | |", "|---|---|---|---|"]
    for name in names:
        reasons: dict[tuple[str, str], list[str]] = {}
        for module, rows in modules.items():
            row = rows.get(name, {"is": "same"})
            if row["is"] != "same":
                why = row.get("why") or ABSENT[module][name]
                reasons.setdefault((row["is"], why), []).append(module)
        lines += [f"| `{name}` | {', '.join(where)} | {kind} | {why} |" for (kind, why), where in reasons.items()]
    lines += ["", f"| option of `{LAUNCHER}` | `hipress run` | |", "|---|---|---|"]
    lines += [f"| `{option}` | {row['is']} | {row.get('why', '')} |" for option, row in launcher.items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Writes or checks the page. Returns the exit code."""
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    written = f"{before}{BEGIN}{tables()}{END}{after}"
    if "--check" not in arguments:
        PAGE.write_text(written)
    elif written != page:
        print(f"{PAGE.relative_to(ROOT)} is not in step with {NAMES.name}: run python docs/update_horovod.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
