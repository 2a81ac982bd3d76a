# SPDX-License-Identifier: Apache-2.0
"""The page on installing names all built versions and the recorded sizes."""

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


def test_its_table_of_frameworks_is_that_of_the_pins() -> None:
    (heading,) = re.findall(r"^\| with Python \| (.*) \|$", TEXT, re.MULTILINE)
    named = dict(one.rsplit(" ", 1) for one in heading.split(" | "))
    pinned = {
        name: re.findall(rf"^{package}==([\d.]+)", (pages.ROOT / "requirements" / file).read_text(), re.MULTILINE)[0]
        for name, package, file in (
            ("PyTorch", "torch", "build.txt"),
            ("TensorFlow", "tensorflow-cpu", "tensorflow.txt"),
            ("MXNet", "mxnet", "mxnet.txt"),
        )
    }
    assert set(named) == set(pinned)
    assert all(pinned[name].startswith(version) for name, version in named.items())
    rows = re.findall(r"^\| (3\.\d+), (3\.\d+) \| yes \| yes \| (?:yes|no) \|$", TEXT, re.MULTILINE)
    assert tuple(version for row in rows for version in row) == VERSIONS


def test_it_names_targets_of_make_that_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)", TEXT))
    assert {"wheels", "wheel", "install"} <= named <= targets_of_make()
