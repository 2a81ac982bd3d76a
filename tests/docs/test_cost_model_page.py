# SPDX-License-Identifier: Apache-2.0
"""docs/extending/cost-model.md: the page's model, added to a copy of the package, passes its tests, and the commands
run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import hipress
from tests.docs import edits, pages

pytestmark = pytest.mark.slow

PAGE = "docs/extending/cost-model.md"


def copy_of(root: Path) -> dict[str, str]:
    """Copies the planner's files below `root`, with the folders of the installed package. Returns the environment
    variables that select the copy."""
    for folder in ("secopa", "tests/secopa", "benchmarks/models"):
        shutil.copytree(pages.ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests/__init__.py").touch()
    package = root / "site" / "hipress"
    package.mkdir(parents=True)
    for entry in Path(hipress.__file__).parent.iterdir():
        if entry.name != "secopa":
            (package / entry.name).symlink_to(entry)
    (package / "secopa").symlink_to(root / "secopa" / "python")
    return {"PYTHONPATH": str(root / "site")}


@pytest.mark.thorough
def test_the_page_can_be_followed(tmp_path: Path) -> None:
    variables = copy_of(tmp_path)
    model, test = pages.blocks(PAGE, "python")
    (tmp_path / "secopa/python/models/overlap.py").write_text(model)
    (tmp_path / "tests/secopa/models/test_overlap.py").write_text(test)
    for diff in pages.blocks(PAGE, "diff"):
        edits.apply(diff, tmp_path)
    install, run_tests, plans = pages.blocks(PAGE, "bash")
    assert install == "make install\n"
    assert "5 passed" in pages.run(["bash", "-euc", run_tests], tmp_path, variables=variables)
    # The installed program `hipress` would start the installed package.
    hipress_program = f"hipress() {{ '{sys.executable}' -m hipress.cli \"$@\"; }}\n"
    printed = pages.run(["bash", "-euc", hipress_program + plans], tmp_path, timeout=300.0, variables=variables)
    assert "with the model overlap" in printed
    assert "wrote timeline.json" in printed
