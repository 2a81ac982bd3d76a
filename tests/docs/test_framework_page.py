# SPDX-License-Identifier: Apache-2.0
"""docs/extending/framework.md: its CMake file builds a framework's operators, and it names existing files and
functions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs import pages

PAGE = "docs/extending/framework.md"

_PROJECT = """
cmake_minimum_required(VERSION 3.24)
project(adapter LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter)
include({frameworks})
add_library(hipress SHARED core.cc)
"""


def test_its_cmake_file_builds_operators_from_headers_alone(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "name"
    (package / "include").mkdir(parents=True)
    (package / "include" / "name.h").write_text("void lives_in_the_framework();\n")
    record = tmp_path / "site-packages" / "name-1.2.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("name/__init__.py,,\n")
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: name\nVersion: 1.2\n")
    (tmp_path / "operators").mkdir()
    operator = "#include <name.h>\nvoid submit() { lives_in_the_framework(); }\n"
    (tmp_path / "operators" / "synchronize.cc").write_text(operator)
    (tmp_path / "core.cc").write_text("void core() {}\n")
    (block,) = pages.blocks(PAGE, "cmake")
    project = _PROJECT.format(frameworks=pages.ROOT / "cmake" / "frameworks.cmake")
    (tmp_path / "CMakeLists.txt").write_text(project + block)

    cmake = str(Path(sys.executable).with_name("cmake"))
    options = [f"-DPython_EXECUTABLE={sys.executable}", "-DHIPRESS_BUILD_NAME=ON", f"-DHIPRESS_NAME_ROOT={package}"]
    configured = pages.run([cmake, "-S", ".", "-B", "tree", *options], tmp_path)
    assert f"name 1.2: {package}" in configured
    pages.run([cmake, "--build", "tree"], tmp_path)
    library = (tmp_path / "tree" / "libhipress_name.so").read_bytes()
    assert b"libname.so\0" in library, "the loader finds it among the libraries of the process"


def test_without_the_framework_nothing_is_built(tmp_path: Path) -> None:
    (tmp_path / "core.cc").write_text("void core() {}\n")
    (block,) = pages.blocks(PAGE, "cmake")
    project = _PROJECT.format(frameworks=pages.ROOT / "cmake" / "frameworks.cmake")
    (tmp_path / "CMakeLists.txt").write_text(project + block)
    cmake = str(Path(sys.executable).with_name("cmake"))
    options = [f"-DPython_EXECUTABLE={sys.executable}", "-DHIPRESS_BUILD_NAME=ON"]
    assert "name: not found by" in pages.run([cmake, "-S", ".", "-B", "tree", *options], tmp_path)
    wrong = [cmake, "-S", ".", "-B", "tree", *options, f"-DHIPRESS_NAME_ROOT={tmp_path}"]
    done = subprocess.run(wrong, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "fetch_headers.py name" in done.stderr


def test_its_links_lead_somewhere() -> None:
    page = pages.ROOT / PAGE
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link
