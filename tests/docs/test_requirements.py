# SPDX-License-Identifier: Apache-2.0
"""All files name the same Python versions, and the pinned packages can be installed with these versions."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.docs import pages

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

#: The Python versions with which a clone's environment can be made.
VERSIONS = ["3.10", "3.11", "3.12", "3.13"]


def pins(file: str) -> list[Requirement]:
    lines = (pages.ROOT / "requirements" / file).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("file", ["build.txt", "demo.txt", "dev.txt"])
def test_a_pin_is_for_versions_of_python_that_it_takes(file: str) -> None:
    looked_at = 0
    for pin in pins(file):
        try:
            found = metadata(pin.name)
        except PackageNotFoundError:
            continue
        if not pin.specifier.contains(found["Version"].partition("+")[0]):
            continue  # the pin is for another version of Python
        looked_at += 1
        takes = SpecifierSet(found.get("Requires-Python") or "")
        for version in VERSIONS:
            if pin.marker is None or pin.marker.evaluate({"python_version": version}):
                assert takes.contains(f"{version}.9"), f"{pin} cannot be installed with Python {version}"
    assert looked_at >= 5


@pytest.mark.parametrize("file", ["build.txt", "demo.txt", "dev.txt"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_python_has_one_pin_of_each(file: str, version: str) -> None:
    all_pins = pins(file)
    chosen = [pin.name for pin in all_pins if pin.marker is None or pin.marker.evaluate({"python_version": version})]
    assert len(chosen) == len(set(chosen))
    assert {pin.name for pin in all_pins} - set(chosen) <= {"atheris"}  # the requirements file gives the reason


def test_documents_and_the_package_promise_the_same() -> None:
    project = tomllib.loads((pages.ROOT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.10"
    assert project["tool"]["mypy"]["python_version"] == "3.10"
    assert project["tool"]["ruff"]["target-version"] == "py310"
    for page in ("README.md", "docs/guide/training.md"):
        assert "Python 3.10 or newer" in (pages.ROOT / page).read_text()
