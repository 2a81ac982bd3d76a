# SPDX-License-Identifier: Apache-2.0
"""What is cleared: by proof only, on all tasks, and for an unknown optimizer by all kinds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipress.cli.main import app
from hipress.errors import InvalidArgument
from hipress.secopa.evidence.clearance import ACCURACIES, EXACT, cleared, kinds_with_evidence, standings
from hipress.secopa.evidence.document import Evidence, Row, read
from hipress.secopa.evidence.optimizers import KINDS, kind_named

GOOD = Row("adam", "text", "int8", True, 3, gap=0.001, limit=0.004, least=-0.002, error=1e-4)


def _evidence(*rows: Row) -> Evidence:
    return Evidence("1", 4, 0.005, 0.02, {"text": "A text", "images": "Images"}, rows)


def _level(*rows: Row) -> str:
    (standing,) = standings("adam", _evidence(*rows))
    return standing.level


def test_proof_on_one_task_clears() -> None:
    assert _level(GOOD) == "safe"
    assert _level(replace(GOOD, limit=0.01)) == "economy"
    assert _level(replace(GOOD, limit=0.03)) == "not proved"


def test_a_task_without_proof_does_not_clear_and_forbids_only_by_its_gap() -> None:
    error = 0.002

    def unsure(gap: float) -> Row:
        return replace(GOOD, task="images", gap=gap, limit=gap + 3.09 * error, least=gap - 3.09 * error)

    assert _level(GOOD, unsure(0.0065)) == "safe"
    assert _level(GOOD, unsure(0.0075)) == "economy"
    assert _level(GOOD, unsure(0.0225)) == "loses"
    assert _level(unsure(0.0)) == "economy"
    assert _level(unsure(0.015)) == "loses"


def test_a_loss_on_another_task_forbids() -> None:
    assert _level(GOOD, replace(GOOD, task="images", gap=0.1, limit=0.12, least=0.08)) == "loses"
    assert _level(GOOD, replace(GOOD, task="images", gap=math.inf, limit=math.inf, least=math.inf)) == "loses"


def test_too_few_trainings_count_for_nothing() -> None:
    assert standings("adam", _evidence(replace(GOOD, limit=math.nan, least=math.nan))) == []


def test_an_unknown_optimizer_gets_what_all_kinds_are_cleared_for() -> None:
    fp8 = replace(GOOD, method="fp8_e4m3")
    evidence = _evidence(GOOD, fp8, replace(GOOD, optimizer="momentum"))
    for kind in ("unknown", "muon", "lamb", "sgd"):
        assert cleared(kind, "safe", evidence) == (*EXACT, "int8")
    assert cleared("adam", "safe", evidence) == (*EXACT, "int8", "fp8_e4m3")


def test_levels_include_the_stricter_ones_and_the_most_exact_codec_comes_first() -> None:
    rough = replace(GOOD, method="terngrad", limit=0.015, error=3.0)
    evidence = _evidence(rough, GOOD, replace(GOOD, method="OneBitAdam", is_codec=False))
    assert cleared("adam", "exact", evidence) == EXACT
    assert cleared("adam", "safe", evidence) == (*EXACT, "int8")
    assert cleared("adam", "economy", evidence) == (*EXACT, "int8", "terngrad")
    with pytest.raises(InvalidArgument, match="exact, safe, economy"):
        cleared("adam", "best", evidence)


def test_kinds_have_the_names_that_programs_give() -> None:
    assert kind_named("AdamW") == "adam"
    assert kind_named("momentum") == "momentum"
    with pytest.raises(InvalidArgument, match="sgd, momentum, adam"):
        kind_named("my own")


def test_the_package_has_evidence() -> None:
    found = read()
    assert {"adam", "momentum"} <= set(kinds_with_evidence(found))
    assert {row.optimizer for row in found.rows} <= set(KINDS)
    assert {row.task for row in found.rows} <= set(found.tasks)
    assert any(math.isfinite(row.limit) and row.limit > found.economy for row in found.rows), "losing rows stay"
    for kind in KINDS:
        for accuracy in ACCURACIES:
            assert cleared(kind, accuracy)[: len(EXACT)] == EXACT


def test_infinity_and_missing_proof_are_read(tmp_path: Path) -> None:
    row = (
        '{"optimizer": "adam", "task": "text", "method": "dgc", "is_codec": true, "trainings": 1, "gap": "inf", '
        '"limit": null, "least": null, "error": null}'
    )
    file = tmp_path / "evidence.json"
    file.write_text(
        '{"version": "1", "ranks": 4, "safe": 0.005, "economy": 0.02, "tasks": {"text": "A text"}, "rows": ['
        + row
        + "]}"
    )
    (found,) = read(file).rows
    assert math.isinf(found.gap)
    assert not found.proves


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_command_shows_what_auto_may_choose(kind: str) -> None:
    result = CliRunner().invoke(app, ["evidence", "--optimizer", kind])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    for accuracy in ("safe", "economy"):
        (line,) = [each for each in lines if f'accuracy="{accuracy}"' in each]
        assert line.endswith(", ".join(cleared(kind, accuracy)))
    assert ("There are no trainings for this kind" in result.output) == (kind not in kinds_with_evidence(read()))


def test_the_command_names_the_kinds_for_another_word() -> None:
    result = CliRunner().invoke(app, ["evidence", "--optimizer", "mine"])
    assert result.exit_code == 2
