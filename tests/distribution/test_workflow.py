# SPDX-License-Identifier: Apache-2.0
"""The publishing workflow builds the wheels of `make wheels` for every version, and publishes on a tag only."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from distribution.wheels import DIST, ROOT, VERSIONS
from tests.docs.test_contributing import targets_of_make


@pytest.fixture(scope="module")
def workflow() -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())


def commands(job: Any) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_it_builds_every_version_with_make(workflow: Any) -> None:
    job = workflow["jobs"]["wheels"]
    assert tuple(job["strategy"]["matrix"]["python"]) == VERSIONS
    (build,) = (command for command in commands(job) if command.startswith("make "))
    assert build.split()[1] in targets_of_make()
    assert "VERSIONS=${{ matrix.python }}" in build
    # The container gives the wheel's tag; UCX and PyTorch have no wheels for an older tag.
    assert re.search(r"manylinux_2_28_x86_64$", job["container"])
    (tried,) = (command for command in commands(job) if "hipress doctor" in command)
    script = re.findall(r"tests/\S+\.py", tried)
    assert script
    assert all((ROOT / one).exists() for one in script)


def test_the_versions_of_make_are_those_of_the_workflow() -> None:
    (versions,) = re.findall(r"^VERSIONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tuple(versions.split()) == VERSIONS


def test_what_it_uploads_is_what_is_made(workflow: Any) -> None:
    made = DIST.relative_to(ROOT).as_posix()
    for name in ("source", "wheels"):
        job = workflow["jobs"][name]
        (upload,) = (step["with"] for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
        assert upload["path"].startswith(f"{made}/")
        assert upload["if-no-files-found"] == "error"


def test_it_publishes_on_a_tag_alone_and_without_a_password(workflow: Any) -> None:
    # YAML reads the key "on" as the value true.
    assert workflow[True]["push"] == {"tags": ["v*"]}
    publish = workflow["jobs"]["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(publish["needs"]) == {"source", "wheels"}
    assert publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
