# SPDX-License-Identifier: Apache-2.0
"""The pages and forms for contributors name existing files and commands."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from tests.docs import pages

FORMS = sorted((pages.ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def targets_of_make() -> set[str]:
    makefile = (pages.ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_the_targets_of_make_exist(page: str) -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)\b`", (pages.ROOT / page).read_text()))
    named |= {line.split()[1] for block in pages.blocks(page, "bash") for line in block.splitlines() if "make " in line}
    assert named
    assert named <= targets_of_make()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_the_forms_of_issues_are_of_githubs_form(form: Any) -> None:
    content = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert content == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= set(content)
    ids = []
    for field in content["body"]:
        assert field["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert field["attributes"]["label"]
        ids.append(field["id"])
    assert len(ids) == len(set(ids))


def test_the_form_for_defects_asks_for_the_doctors_report() -> None:
    (doctor,) = (field for field in yaml.safe_load(FORMS[0].read_text())["body"] if field["id"] == "doctor")
    assert "`hipress doctor --json`" in doctor["attributes"]["label"]


def test_the_hooks_before_a_commit_run_what_lint_runs() -> None:
    (repository,) = yaml.safe_load((pages.ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    makefile = (pages.ROOT / "Makefile").read_text()
    lint = makefile[makefile.index("\nlint:") : makefile.index("\n# Clang's")]
    for hook in repository["hooks"]:
        program = shlex.split(hook["entry"])[0].removeprefix(".venv/bin/")
        assert f"$(BIN)/{program}" in lint


def test_the_changelog_has_this_version() -> None:
    version = re.search(r'^version = "(.*)"$', (pages.ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    headings = re.findall(r"^## (.*)$", (pages.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert version.group(1) in headings
