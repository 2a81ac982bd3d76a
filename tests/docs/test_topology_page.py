# SPDX-License-Identifier: Apache-2.0
"""docs/extending/topology.md: its command runs, and it speaks of what exists."""

from __future__ import annotations

import re
import shlex

from tests.docs import pages

PAGE = "docs/extending/topology.md"


def test_the_command_runs() -> None:
    (command,) = pages.blocks(PAGE, "bash")
    assert "passed" in pages.run(shlex.split(command), pages.ROOT, timeout=300.0)


def test_tasks_and_kinds_exist() -> None:
    text = (pages.ROOT / PAGE).read_text()
    header = (pages.ROOT / "core/casync/task_graph.h").read_text()
    tasks = re.findall(r"^\| `(\w+)\(", text, re.MULTILINE)
    assert len(tasks) == 5
    for name in [*tasks, *re.findall(r"`(k[A-Z]\w+)`", text.partition("## Where to name it")[0])]:
        assert re.search(rf"\b{name}\b", header), name
