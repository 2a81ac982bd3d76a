# SPDX-License-Identifier: Apache-2.0
"""The installed Python package keeps the layer contracts of pyproject.toml: no layer imports a layer above it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.files import ROOT

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

pytestmark = pytest.mark.skipif(
    not LINT_IMPORTS.exists(), reason="import-linter is not installed (requirements/dev.txt)"
)

_CONTRACT = """
[tool.importlinter]
root_package = "house"

[[tool.importlinter.contracts]]
name = "house"
type = "layers"
layers = ["house.upper", "house.lower"]
"""


def lint(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(LINT_IMPORTS), "--no-cache"]
    environment = {**os.environ, "COLUMNS": "120", **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_import_follows_an_arrow() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_an_arrow_in_the_wrong_direction_is_found(tmp_path: Path) -> None:
    """The contract checker rejects a package in which the lower layer imports the upper layer."""
    package = tmp_path / "house"
    for name, text in {"": "", "upper": "", "lower": "import house.upper\n"}.items():
        (package / name).mkdir(exist_ok=True, parents=True)
        (package / name / "__init__.py").write_text(text)
    contract = (
        '[[tool.importlinter.contracts]]\nname = "house"\ntype = "layers"\nlayers = ["house.upper", "house.lower"]\n'
    )
    (tmp_path / "pyproject.toml").write_text(f'[tool.importlinter]\nroot_package = "house"\n{contract}')
    done = lint(tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    assert "house.lower is not allowed to import house.upper" in done.stdout
