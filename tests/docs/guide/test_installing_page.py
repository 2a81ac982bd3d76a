# SPDX-License-Identifier: Apache-2.0
"""The page on installing names the versions that are built, and the recorded sizes."""

from __future__ import annotations

import re
import sys

from distribution.wheels import VERSIONS
from tests.docs import pages
from tests.docs.test_contributing import targets_of_make

PAGE = "docs/guide/installing.md"
TEXT = (pages.ROOT / PAGE).read_text()


def test_the_sizes_are_the_recorded_ones() -> None:
    pages.run([sys.executable, "docs/update_wheels.py", "--check"], pages.ROOT)


def test_it_names_the_versions_that_are_built() -> None:
    (row,) = re.findall(r"^\| Python \| (.*) \|$", TEXT, re.MULTILINE)
    assert tuple(re.findall(r"3\.\d+", row)) == VERSIONS
    built = set(re.findall(r"cp(\d)(\d+)-cp", TEXT))
    assert {f"{major}.{minor}" for major, minor in built} <= set(VERSIONS)


def test_it_names_targets_of_make_that_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)", TEXT))
    assert {"wheels", "wheel", "install"} <= named <= targets_of_make()
