# SPDX-License-Identifier: Apache-2.0
"""The README's first tables: whole steps before averages, each time beside the fastest peer, and losing cells bold."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tests.docs import pages

sys.path.insert(0, str(pages.ROOT / "docs" / "tables"))
first_screen = importlib.import_module("first_screen")
README = (pages.ROOT / "README.md").read_text()


def step(system: str, time_s: float, **more: Any) -> dict[str, Any]:
    return {"system": system, "time_s": time_s, "alone_s": 0.5, **more}


def test_a_step_stands_beside_the_faster_of_ddp_and_its_16_bit_hooks() -> None:
    rows = [step("ddp", 2.0, group="nccl"), step("ddp-fp16", 1.2), step("ddp-bf16", 1.0), step("hook-int8", 0.8)]
    rows += [step("hook-int4", 1.25), step("hipress onebit ps", 0.9)]
    table = first_screen.steps_table({"a model": rows, "another": None})
    cells = "| a model, NCCL | 500 ms | 2 s | 1 s | 800 ms (1.2 ×) | **1.25 s (0.8 ×)** | – | 900 ms (1.1 ×) |"
    assert cells in table
    assert "| another | not measured |" in table


def test_an_average_stands_beside_the_faster_of_gloo_and_the_fp16_hook() -> None:
    rows = [step("gloo-fp32", 0.4), step("gloo-fp16", 0.5), step("powersgd", 0.3), step("hook-int8", 0.2)]
    table = first_screen.averages_table({"links": [*rows, step("hook-onebit", 0.44)]})
    assert "| HiPress' hook (Gloo), `int8` | 200 ms (2.0 ×) |" in table
    assert "| HiPress' hook (Gloo), `onebit` | **440 ms (0.9 ×)** |" in table
    assert "| torch's PowerSGD hook (Gloo) | 300 ms |" in table


def test_whole_steps_come_first_and_int8_is_in_the_first_table() -> None:
    first = README.index("| Four ranks train |")
    assert "`int8`" in README[first : README.index("\n", first)]
    assert first < README.index("| Averaged by |")


def test_the_status_is_told_before_anything_else_is_offered() -> None:
    status = README.index("**Status: alpha.**")
    assert status < README.index("```")
    assert status < README.index("| Four ranks train |")


def test_each_row_of_features_names_the_tests_that_show_it() -> None:
    table = README[README.index("## What works") :].split("\n\n")[1].splitlines()[2:]
    assert len(table) > 5
    for line in table:
        *_, shown, _ = line.split("|")
        named = [text.rpartition("](")[2] for text in shown.split(")") if "](" in text]
        assert named, line
        for path in named:
            assert path.startswith("tests/"), line
            assert (pages.ROOT / path).is_file(), line
