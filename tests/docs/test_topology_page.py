# SPDX-License-Identifier: Apache-2.0
"""docs/extending/topology.md: its topology compiles in a copy of the core, and builds the graphs that the page
shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.core.casync.graph import test_algorithms as algorithms
from tests.docs import edits, pages

pytestmark = pytest.mark.slow

PAGE = "docs/extending/topology.md"
#: Prints the tasks of each rank, one per line, as `_core.build_topology` returns them.
PROGRAM = """
#include <iostream>
#include <string>

#include "core/casync/graph/topology.h"

int main(int, char** argv) {
  const int world = std::stoi(argv[2]), owner = std::stoi(argv[4]);
  const auto partitions = static_cast<uint16_t>(std::stoi(argv[3]));
  for (int rank = 0; rank < world; ++rank) {
    const auto graph = hipress::buildTopology(argv[1], {rank, world, partitions, owner, {}});
    for (const auto& task : graph.tasks()) {
      size_t merged = 0;
      if (task.primitive == hipress::Primitive::kMerge) {
        for (const auto& operand : task.from) merged += operand.kind == hipress::Operand::Kind::kMessage;
      }
      std::cout << rank << ' ' << hipress::primitiveName(task.primitive) << ' ' << task.partition << ' '
                << task.peer << ' ' << task.hop << ' ' << task.level << ' ' << merged;
      for (const auto successor : task.successors) std::cout << ' ' << successor;
      std::cout << '\\n';
    }
  }
}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the core's graphs and their tests, with the page's file and the page's edits."""
    root = tmp_path_factory.mktemp("page")
    for folder in ("core/casync/graph", "core/base", "core/transport"):
        shutil.copytree(pages.ROOT / folder, root / folder)
    for test in ("test_algorithms.py", "test_topologies.py"):
        (root / "tests/core/casync/graph").mkdir(parents=True, exist_ok=True)
        shutil.copy(pages.ROOT / "tests/core/casync/graph" / test, root / "tests/core/casync/graph")
    (source,) = pages.blocks(PAGE, "cpp")
    (root / "core/casync/graph/topologies/tree.cc").write_text(source)
    for diff in pages.blocks(PAGE, "diff"):
        edits.apply(diff, root)
    return root


@pytest.fixture(scope="module")
def program(copy: Path) -> Path:
    (copy / "main.cc").write_text(PROGRAM)
    graph = copy / "core/casync/graph"
    sources = [copy / "main.cc", graph / "topology.cc", graph / "task_graph.cc", *(graph / "topologies").glob("*.cc")]
    command = ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-restrict", f"-I{copy}", *map(str, sources)]
    subprocess.run([*command, "-o", str(copy / "graphs")], check=True, timeout=300)
    return copy / "graphs"


def built(program: Path, world: int, partitions: int, owner: int) -> algorithms.Graphs:
    arguments = ["tree", str(world), str(partitions), str(owner)]
    printed = subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout
    graphs: algorithms.Graphs = [[] for _ in range(world)]
    for line in printed.splitlines():
        rank, primitive, *numbers = line.split()
        partition, peer, hop, level, merged, *successors = map(int, numbers)
        task: dict[str, Any] = {"primitive": primitive, "partition": partition, "peer": peer, "hop": hop}
        graphs[int(rank)].append({**task, "level": level, "merged_messages": merged, "successors": successors})
    return graphs


def the_pages_costs(copy: Path) -> algorithms.Cost:
    """The entry that the page adds to COSTS."""
    text = (copy / "tests/core/casync/graph/test_algorithms.py").read_text()
    entry = re.search(r'"tree": (Cost\(\n.*?\n    \)),\n', text, re.DOTALL)
    assert entry is not None
    cost: algorithms.Cost = eval(entry[1], {"Cost": algorithms.Cost, "share": algorithms.share})
    return cost


def test_the_topology_sends_and_computes_as_the_page_says(copy: Path, program: Path) -> None:
    cost = the_pages_costs(copy)
    for size in algorithms.FLAT:
        graphs = built(program, size.N, size.K, owner=1)
        assert algorithms.is_matched(graphs), size
        assert algorithms.longest_path(graphs) == cost.hops(size), size
        tasks = [task for rank in graphs for task in rank]
        for primitive, expected in (("send", cost.outside), ("encode", cost.encodes), ("decode", cost.decodes)):
            count = sum(task["primitive"] == primitive for task in tasks)
            merged = sum(task["merged_messages"] for task in tasks) if primitive == "decode" else 0
            assert count + merged == size.N * expected(size), (primitive, size)


def test_the_page_shows_the_graph_that_is_built(program: Path) -> None:
    (shown,) = pages.blocks(PAGE, "text")
    lines = [
        f"rank {rank}: {task['primitive']} {task['peer'] if task['peer'] >= 0 else ''}".rstrip()
        for rank, tasks in enumerate(built(program, 3, 1, owner=0))
        for task in tasks
    ]
    assert [line.rstrip() for line in shown.splitlines()] == lines


def test_the_tests_that_the_page_names_exist() -> None:
    text = (pages.ROOT / PAGE).read_text()
    tests = "".join(path.read_text() for path in (pages.ROOT / "tests/core/casync").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", text)
    assert named
    for name in named:
        assert f"def {name}(" in tests, name


def test_tasks_and_kinds_exist() -> None:
    text = (pages.ROOT / PAGE).read_text()
    header = (pages.ROOT / "core/casync/graph/task_graph.h").read_text()
    tasks = re.findall(r"^\| `(\w+)\(", text, re.MULTILINE)
    assert len(tasks) == 5
    for name in [*tasks, *re.findall(r"`(k[A-Z]\w+)`", text.partition("## 1.")[0])]:
        assert re.search(rf"\b{name}\b", header), name
