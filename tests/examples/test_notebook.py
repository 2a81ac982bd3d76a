# SPDX-License-Identifier: Apache-2.0
"""examples/torch/tour.ipynb runs from its first cell to its last, and its stored outputs belong to its cells."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.launch.conftest import clean_environment

nbformat = pytest.importorskip("nbformat", reason="notebooks are executed in .venv only")
nbclient = pytest.importorskip("nbclient", reason="notebooks are executed in .venv only")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NOTEBOOK = pages.ROOT / "examples" / "torch" / "tour.ipynb"
#: Replacements that shorten the training.
SHORTER = (("steps=200", "steps=20"), (" none int8 onebit ", " none onebit "))


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def text_of(cell: Any) -> str:
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", ())
    )


def pictures_of(cell: Any) -> list[str]:
    return [output["data"]["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]


def bytes_of(table: str) -> dict[str, int]:
    rows = re.findall(r"^(\S+) +([\d,]+) +[\d.]+% +[\d.]+$", table, re.MULTILINE)
    return {codec: int(sent.replace(",", "")) for codec, sent in rows}


@pytest.mark.thorough
def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read()
    for cell in notebook.cells:
        for long, short in SHORTER:
            cell.source = cell.source.replace(long, short)
    nbclient.NotebookClient(
        notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [text_of(cell) for cell in notebook.cells if cell.cell_type == "code"]
    sent = bytes_of("\n".join(outputs))
    assert set(sent) == {"none", "onebit", "onebit(error_feedback=false)"}
    assert sent["onebit"] < sent["none"] / 20
    assert any("wrote report.html" in output for output in outputs)
    assert sum(len(pictures_of(cell)) for cell in notebook.cells if cell.cell_type == "code") == 1
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_its_stored_outputs_are_those_of_a_whole_run() -> None:
    code = [cell for cell in read().cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.outputs or cell is code[-1] for cell in code)
    sent = bytes_of("\n".join(text_of(cell) for cell in code))
    asked = next(cell.source for cell in code if "python train.py none" in cell.source)
    assert set(sent) == set(re.findall(r"[\w=()]+", asked.partition("train.py ")[2]))
    assert sent["int8"] < sent["none"] / 3
