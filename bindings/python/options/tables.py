# SPDX-License-Identifier: Apache-2.0
"""Tables of declared options, in Markdown, for the guides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hipress.options.declaration import Declared
from hipress.options.signatures import about


def table_of_variables(options: Mapping[str, Declared]) -> str:
    """A table with a row for each option: variable, default, meaning, and whether it must be the same on all ranks."""
    lines = ["| Variable | Default | Meaning | Same on all ranks |", "|---|---|---|---|"]
    for each in options.values():
        same = "yes" if each.option.same_on_all_ranks else ""
        lines.append(f"| `{each.variable}` | {_default(each)} | {about(each, {})} | {same} |")
    return "\n".join(lines) + "\n"


def table_of_arguments(options: Mapping[str, Declared], **words: str) -> str:
    """A table with a row for each option: name, default, meaning."""
    lines = ["| Argument | Default | Meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {_default(each)} | {_cell(about(each, words))} |" for name, each in options.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(option: Declared) -> str:
    return option.option.default_text or _shown(option.default)


def _shown(value: Any) -> str:
    """A default as text; a switch is 0 or 1, as in its variable."""
    if isinstance(value, bool):
        return str(int(value))
    if value == "" or value is None:
        return ""
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{value}`"
