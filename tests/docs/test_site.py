# SPDX-License-Identifier: Apache-2.0
"""The documentation site builds without a warning, has a complete reference, and fits a phone's screen."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hipress.torch
from tests.browser import look
from tests.docs import pages
from tests.tiers import thorough, usually

sys.path.insert(0, str(pages.ROOT))
from docs.site import reference

LOOKED_AT = [
    "index.html",
    "docs/benchmarks.html",
    "docs/guide/planning.html",
    "docs/guide/tutorial.html",
    "docs/reference/hipress.torch.html",
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site; a warning fails the build."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(pages.ROOT / "docs" / "site" / "build.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder / "site"


def public_names(module: str) -> list[str]:
    """The names in `__all__`, or the public classes if there is none. They come from the source, because no environment
    has all frameworks."""
    file = reference.package().parent.joinpath(*module.split("."))
    tree = ast.parse((file / "__init__.py" if file.is_dir() else file.with_suffix(".py")).read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    return [each.name for each in tree.body if isinstance(each, ast.ClassDef) and not each.name.startswith("_")]


@pytest.mark.parametrize("module", reference.MODULES)
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    html = (site / reference.FOLDER / f"{module}.html").read_text()
    shown = {name.rpartition(".")[2] for name in re.findall(r'<h[2-6] id="([\w.]+)"', html)}
    submodules = {other.rpartition(".")[2] for other in reference.MODULES if other.startswith(f"{module}.")}
    submodules.add("codecs")  # a module of its own, which all adapters have
    names = public_names(module)
    assert names
    assert sorted(set(names) - shown - submodules) == []


def test_the_reference_shows_options_that_are_declared_elsewhere(site: Path) -> None:
    html = (site / reference.FOLDER / "hipress.torch.html").read_text()
    assert "{options}" not in html
    optimizer = inspect.signature(hipress.torch.DistributedOptimizer)
    assert len(optimizer.parameters) > 10
    section = html.partition('id="hipress.torch.DistributedOptimizer"')[2].partition("<h2")[0]
    assert [name for name in optimizer.parameters if f"<code>{name}</code>" not in section] == []


@pytest.mark.parametrize("width", [390, thorough(1280)])
@pytest.mark.parametrize("page", usually(LOOKED_AT[:2], LOOKED_AT))
def test_nothing_is_wider_than_the_window(site: Path, tmp_path: Path, page: str, width: int) -> None:
    seen = look(site / page, width, tmp_path / "page.png")
    assert seen["title"]
    assert seen["width"] <= seen["window"] == width
    assert [request for request in seen["requests"] if not request.startswith(("file:", "data:"))] == []
